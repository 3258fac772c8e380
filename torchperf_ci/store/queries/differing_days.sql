-- The days, counted from 1970, of which the tables that answer have not as many rows as the results.
SELECT
    number AS day, sum(results) AS results, sum(found.values) = results AS has_values, sum(found.days) = results AS has_days,
    sum(found.runs) = results AS has_runs, sum(found.values) > 0 OR sum(found.days) > 0 OR sum(found.runs) > 0 AS has_rows
FROM (
    SELECT intDiv(timestamp, 86400) AS number, count() AS results, 0 AS values, 0 AS days, 0 AS runs
    FROM oss_ci_benchmark_v3 GROUP BY number
    UNION ALL
    SELECT intDiv(timestamp, 86400) AS number, 0, count(), 0, 0 FROM torchperf_values GROUP BY number
    UNION ALL
    SELECT intDiv(day, 86400) AS number, 0, 0, sum(rows), 0 FROM torchperf_days GROUP BY number
    UNION ALL
    SELECT intDiv(day, 86400) AS number, 0, 0, 0, sum(rows) FROM torchperf_runs GROUP BY number
) AS found
GROUP BY day
HAVING NOT (has_values AND has_days AND has_runs)
ORDER BY day
