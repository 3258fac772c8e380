-- Each incoming object: how many records it has, how many of them say neither their time nor their workflow run, how many
-- are of a day that has not begun, whether it is kept already, and whether what is kept is the same.
SELECT incoming.key AS key, incoming.records AS records, incoming.untimed AS untimed, incoming.ahead AS ahead,
    kept.records > 0 AS is_kept, kept.records = incoming.records AND kept.content = incoming.content AS is_same
FROM (
    SELECT _meta.key AS key, count() AS records, countIf(timestamp = 0 AND workflow_id = 0) AS untimed,
        countIf(timestamp > toUnixTimestamp(now()) + 86400) AS ahead,
        sum(cityHash64(tuple(/* record_columns */))) AS content
    FROM torchperf_incoming
    GROUP BY key
) AS incoming
LEFT JOIN (
    SELECT _meta.key AS key, count() AS records, sum(cityHash64(tuple(/* record_columns */))) AS content
    FROM oss_ci_benchmark_v3
    WHERE _meta.bucket = {bucket:String} AND _meta.key IN (SELECT DISTINCT _meta.key FROM torchperf_incoming)
    GROUP BY key
) AS kept ON incoming.key = kept.key
ORDER BY key
