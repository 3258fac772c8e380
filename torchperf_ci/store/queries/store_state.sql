-- What changes with each insertion and deletion: the newest part of each table, and the number of results. The engine knows
-- both without reading rows.
SELECT groupArray((table, newest)), (SELECT count() FROM oss_ci_benchmark_v3)
FROM (
    SELECT table, max(max_block_number) AS newest
    FROM system.parts
    WHERE active AND database = currentDatabase()
        AND table IN ('oss_ci_benchmark_v3', 'torchperf_values', 'torchperf_judged', 'torchperf_commits')
    GROUP BY table
    ORDER BY table
)
