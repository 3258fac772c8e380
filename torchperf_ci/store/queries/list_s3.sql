-- The objects below a prefix, or the first ones, to see whether the engine may; nothing of them is read.
SELECT substring(_path, length({bucket:String}) + 2) AS key, trim(BOTH '"' FROM toString(_etag)) AS etag, toUInt64(_size) AS size
FROM /* objects */
LIMIT {most:UInt64}
SETTINGS s3_retry_attempts = 5, s3_connect_timeout_ms = 5000, s3_request_timeout_ms = 30000, http_max_tries = 3,
    use_hive_partitioning = 0
