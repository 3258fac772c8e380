-- Which points; an empty parameter is no filter. The projection by_run has those of a machine and a time side by side.
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
