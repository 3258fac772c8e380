-- Let ClickHouse itself ingest new objects of a bucket; docs/store.md explains it.
--
-- Replace BUCKET by the bucket's name, and run this once in the database of the results:
--     sed 's/BUCKET/my-bucket/g' replicate.sql | clickhouse-client --database benchmark

-- The records of an object: the columns of the results without their defaults, as `torchperf ingest` reads them, too.
CREATE TABLE IF NOT EXISTS torchperf_objects
ENGINE = S3Queue('https://BUCKET.s3.amazonaws.com/v3/**', 'JSONEachRow', 'gzip')
SETTINGS
    mode = 'unordered',  -- keys do not grow with time
    tracked_files_limit = 10000000,  -- a forgotten object would be ingested again
    loading_retries = 3
EMPTY AS SELECT * EXCEPT _meta FROM oss_ci_benchmark_v3;

-- Insert every new object into the results. In this engine the path is the key; in others it begins with the bucket.
CREATE MATERIALIZED VIEW IF NOT EXISTS torchperf_replicate TO oss_ci_benchmark_v3 AS
SELECT
    timestamp, schema_version, name, repo, head_branch, head_sha, workflow_id, run_attempt, job_id,
    servicelab_experiment_id, servicelab_trial_id,
    ('BUCKET', if(startsWith(_path, 'BUCKET/'), substring(_path, length('BUCKET/') + 1), _path))
        ::Tuple(bucket String, key String) AS _meta,
    runners, benchmark, model, inputs, dependencies, metric
FROM torchperf_objects;
