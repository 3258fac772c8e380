-- Which object a row came from is asked for whenever objects are taken in, and the table is not ordered by it.
ALTER TABLE oss_ci_benchmark_v3 ADD INDEX IF NOT EXISTS torchperf_object _meta.key TYPE bloom_filter;

-- Objects that need not be read again. It is a cache: what is kept is told by the rows of the results alone, so a lost
-- line costs a comparison, nothing else. A tag stands for a content: an S3 ETag, or a digest.
CREATE TABLE IF NOT EXISTS torchperf_ingested (
    `bucket` String,
    `key` String,
    `tag` String,
    `ingested_at` DateTime DEFAULT now()
) ENGINE = ReplacingMergeTree
ORDER BY (bucket, key, tag);

-- What was no good record, as it stood in its object, with every reason.
CREATE TABLE IF NOT EXISTS torchperf_refused (
    `bucket` String,
    `key` String,
    `line` UInt64,
    `path` String,
    `reasons` Array(String),
    `text` String,
    `refused_at` DateTime DEFAULT now()
) ENGINE = ReplacingMergeTree
ORDER BY (bucket, key, line, path, text);
