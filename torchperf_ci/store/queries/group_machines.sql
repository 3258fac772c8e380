-- The comparable facts of the machines of one kind, by the digest of their fingerprints: equality is all that it takes.
SELECT fingerprint, any(machine)
FROM /* answers */
WHERE (repo, benchmark, device, arch) = ({repo:String}, {benchmark:String}, {device:String}, {arch:String})
    AND fingerprint != ''
GROUP BY fingerprint
