-- The comparable facts of machines, by the digest of their fingerprints.
SELECT fingerprint, any(machine)
FROM /* source */
WHERE fingerprint != '' AND /* point_filter */
GROUP BY fingerprint
