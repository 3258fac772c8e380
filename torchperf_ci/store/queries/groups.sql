-- All groups of series: a benchmark of a repository on one kind of machine.
SELECT DISTINCT repo, benchmark, device, arch
FROM /* source */
WHERE empty({benchmarks:Array(String)}) OR has({benchmarks:Array(String)}, benchmark)
ORDER BY repo, benchmark, device, arch
