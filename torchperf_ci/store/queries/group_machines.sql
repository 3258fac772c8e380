-- The comparable facts of the machines of one kind, by the digest of their fingerprints, with an equality that an index serves.
SELECT fingerprint, any(machine)
FROM /* source */
WHERE (repo, benchmark, device, arch) = ({repo:String}, {benchmark:String}, {device:String}, {arch:String})
    AND fingerprint != ''
GROUP BY fingerprint
