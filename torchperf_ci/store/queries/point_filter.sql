-- A condition on points; an empty parameter does not filter. The projection by_run is ordered by machine and time.
(empty({ids:Array(String)}) OR series IN {ids:Array(String)})
    AND timestamp >= {since:UInt64} AND ({stop:UInt64} = 0 OR timestamp < {stop:UInt64})
    AND ({branch:String} = '' OR branch IN ('', replaceRegexpOne({branch:String}, '^refs/heads/', '')))
    AND (
        empty({repos:Array(String)})
        OR has(
            arrayZip({repos:Array(String)}, {benchmarks:Array(String)}, {devices:Array(String)}, {archs:Array(String)}),
            (repo, benchmark, device, arch)
        )
    )
