-- Each incoming object: how many records it has, how many of them say neither their time nor their workflow run, how many
-- are dated more than a day ahead, whether it is stored already, and with the same content.
SELECT incoming.key AS key, incoming.records AS records, incoming.untimed AS untimed, incoming.ahead AS ahead,
    stored.records > 0 AS is_stored, stored.records = incoming.records AND stored.content = incoming.content AS is_same
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
) AS stored ON incoming.key = stored.key
ORDER BY key
