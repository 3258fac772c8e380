-- The series of a kind of machine that have a result in a stretch of time on a branch.
SELECT series
FROM /* answers */
WHERE (repo, benchmark, device, arch) = ({repo:String}, {benchmark:String}, {device:String}, {arch:String})
    AND timestamp >= {start:UInt64} AND timestamp < {stop:UInt64} AND branch = {branch:String}
GROUP BY series
