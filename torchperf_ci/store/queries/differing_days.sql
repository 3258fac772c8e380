-- The days of which torchperf_values has not as many rows as the results: their first and last time, and both counts.
-- Days in a row are put together, up to about 250,000 results: memory bounds what one statement can process.
WITH
counts AS (
    SELECT intDiv(timestamp, 86400) AS day, timestamp, 1 AS result, 0 AS value FROM oss_ci_benchmark_v3
    UNION ALL
    SELECT intDiv(timestamp, 86400) AS day, timestamp, 0, 1 FROM torchperf_values
),
differing AS (
    SELECT day, min(timestamp) AS begin, max(timestamp) AS end, sum(result) AS results, sum(value) AS values
    FROM counts GROUP BY day HAVING results != values
),
numbered AS (
    SELECT
        *,
        day - row_number() OVER (ORDER BY day) AS stretch,
        intDiv(sum(results) OVER (ORDER BY day), 250000) AS part
    FROM differing
)
SELECT min(begin) AS start, max(end) AS last, sum(results) AS results, sum(values) AS values
FROM numbered
GROUP BY stretch, part
ORDER BY start
