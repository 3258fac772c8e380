-- Which points; an empty parameter is no filter. By machine and month, as the projection by_time has them beside each other.
(empty({ids:Array(String)}) OR series IN {ids:Array(String)})
    AND timestamp >= {since:UInt64} AND ({stop:UInt64} = 0 OR timestamp < {stop:UInt64})
    AND intDiv(timestamp, 2592000) >= intDiv({since:UInt64}, 2592000)
    AND ({stop:UInt64} = 0 OR intDiv(timestamp, 2592000) <= intDiv({stop:UInt64}, 2592000))
    AND ({branch:String} = '' OR branch IN ('', replaceRegexpOne({branch:String}, '^refs/heads/', '')))
    AND (
        empty({repos:Array(String)})
        OR has(
            arrayZip({repos:Array(String)}, {benchmarks:Array(String)}, {devices:Array(String)}, {archs:Array(String)}),
            (repo, benchmark, device, arch)
        )
    )
