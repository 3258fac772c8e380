-- Each incoming object: how many records it has, whether it is kept already, and whether what is kept is the same.
SELECT incoming.key AS key, incoming.records AS records, kept.records > 0 AS is_kept,
    kept.records = incoming.records AND kept.content = incoming.content AS is_same
FROM (
    SELECT _meta.key AS key, count() AS records, sum(cityHash64(tuple(*))) AS content
    FROM torchperf_incoming
    GROUP BY key
) AS incoming
LEFT JOIN (
    SELECT _meta.key AS key, count() AS records, sum(cityHash64(tuple(*))) AS content
    FROM oss_ci_benchmark_v3
    WHERE _meta.bucket = {bucket:String} AND _meta.key IN (SELECT DISTINCT _meta.key FROM torchperf_incoming)
    GROUP BY key
) AS kept ON incoming.key = kept.key
ORDER BY key
