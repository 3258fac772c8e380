-- The comparable facts of machines, by the digest of their fingerprints.
SELECT fingerprint, any(machine)
FROM /* answers */
WHERE (empty({ids:Array(String)}) OR series IN {ids:Array(String)}) AND timestamp >= {since:UInt64} AND fingerprint != ''
GROUP BY fingerprint
