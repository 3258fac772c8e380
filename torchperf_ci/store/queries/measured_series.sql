-- The series of a kind of machine that have a result on a branch in a period.
SELECT series
FROM /* source */
WHERE (repo, benchmark, device, arch) = ({repo:String}, {benchmark:String}, {device:String}, {arch:String})
    AND timestamp >= {start:UInt64} AND timestamp < {stop:UInt64} AND branch = {branch:String}
GROUP BY series
