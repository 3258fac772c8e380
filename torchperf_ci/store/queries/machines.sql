-- The comparable facts of machines, by the digest of their fingerprints.
SELECT fingerprint, any(machine)
FROM /* answers */
WHERE fingerprint != '' AND /* asked */
GROUP BY fingerprint
