-- The days, counted from 1970, of which torchperf_values has not as many rows as the results.
SELECT number AS day, sum(results) AS results, sum(values) AS values
FROM (
    SELECT intDiv(timestamp, 86400) AS number, count() AS results, 0 AS values FROM oss_ci_benchmark_v3 GROUP BY number
    UNION ALL
    SELECT intDiv(timestamp, 86400) AS number, 0, count() FROM torchperf_values GROUP BY number
) AS found
GROUP BY day
HAVING results != values
ORDER BY day
