-- The view again, with the name of each series and what is asked for besides.
CREATE OR REPLACE VIEW torchperf_points AS /* points */;

-- The same results ordered by series, so that one series is read alone. A row for each row of the results.
CREATE TABLE IF NOT EXISTS torchperf_values (
    `series` String,
    `timestamp` UInt64 CODEC(Delta, LZ4),
    `value` Nullable(Float64),
    `low` Nullable(Float32),
    `high` Nullable(Float32),
    `repetitions` Array(Float32),
    `target_value` Float32,
    `status` LowCardinality(String),
    `fingerprint` LowCardinality(String),
    `machine` LowCardinality(String),
    `commit` LowCardinality(String),
    `torch` LowCardinality(String),
    `branch` LowCardinality(String),
    `workflow_id` UInt64 CODEC(Delta, LZ4),
    `run_attempt` UInt32,
    `job_id` UInt64 CODEC(Delta, LZ4),
    `object` Tuple(bucket LowCardinality(String), key String),
    `record_id` UInt64 CODEC(NONE),
    `repo` LowCardinality(String),
    `benchmark` LowCardinality(String),
    `model` LowCardinality(String),
    `mode` LowCardinality(String),
    `dtype` LowCardinality(String),
    `backend` LowCardinality(String),
    `device` LowCardinality(String),
    `arch` LowCardinality(String),
    `metric` LowCardinality(String),
    `torch_device` LowCardinality(String),
    `batch_size` LowCardinality(String),
    `threads` LowCardinality(String),
    `workload_config` LowCardinality(String),
    `metric_info` Map(LowCardinality(String), String)
) ENGINE = MergeTree
ORDER BY (series, timestamp);

-- A materialized view, because results also come by ways that ask nobody: a server takes them out of a bucket itself.
CREATE MATERIALIZED VIEW IF NOT EXISTS torchperf_fill_values TO torchperf_values AS /* values */;

-- What was told of one kind of machine, so that it is not made again before something else is measured there. `made_of` is
-- a digest of all that the text follows from; whoever has another one makes it anew.
CREATE TABLE IF NOT EXISTS torchperf_kept (
    `kind` LowCardinality(String),
    `repo` String,
    `benchmark` String,
    `device` String,
    `arch` String,
    `made_of` String,
    `text` String CODEC(ZSTD),
    `made_at` DateTime64(3) DEFAULT now64()
) ENGINE = ReplacingMergeTree(made_at)
ORDER BY (kind, repo, benchmark, device, arch);

-- Verdicts and culprits as they were written, each content once, by whichever ways it came.
CREATE TABLE IF NOT EXISTS torchperf_judged (
    `kind` LowCardinality(String),
    `digest` String,
    `bucket` String,
    `key` String,
    `text` String CODEC(ZSTD),
    `taken_at` DateTime DEFAULT now()
) ENGINE = ReplacingMergeTree
ORDER BY (kind, digest);

-- One row a verdict; `number` counts them within their file.
CREATE OR REPLACE VIEW torchperf_verdicts AS
SELECT
    digest, number, key, taken_at,
    JSONExtractString(text, 'command') AS command,
    JSONExtractString(text, 'base') AS base,
    JSONExtractString(text, 'head') AS head,
    JSONExtractString(item, 'series', 'repo') AS repo,
    JSONExtractString(item, 'series', 'benchmark') AS benchmark,
    JSONExtractString(item, 'series', 'model') AS model,
    JSONExtractString(item, 'series', 'mode') AS mode,
    JSONExtractString(item, 'series', 'dtype') AS dtype,
    JSONExtractString(item, 'series', 'backend') AS backend,
    JSONExtractString(item, 'series', 'device') AS device,
    JSONExtractString(item, 'series', 'arch') AS arch,
    JSONExtractString(item, 'series', 'metric') AS metric,
    /* series_id */ AS series,
    JSONExtractString(item, 'verdict') AS verdict,
    JSONExtractString(item, 'why') AS why,
    JSONExtract(item, 'effect', 'ratio', 'Nullable(Float64)') AS ratio,
    JSONExtract(item, 'effect', 'low', 'Nullable(Float64)') AS low,
    JSONExtract(item, 'effect', 'high', 'Nullable(Float64)') AS high,
    JSONExtract(item, 'old', 'Nullable(Float64)') AS old,
    JSONExtract(item, 'new', 'Nullable(Float64)') AS new,
    JSONExtract(item, 'noise', 'Nullable(Float64)') AS noise,
    JSONExtract(item, 'detectable', 'Nullable(Float64)') AS detectable,
    JSONExtractRaw(item, 'evidence') AS evidence
FROM (SELECT * FROM torchperf_judged WHERE kind = 'verdicts' LIMIT 1 BY digest)
ARRAY JOIN JSONExtractArrayRaw(text, 'verdicts') AS item, arrayEnumerate(JSONExtractArrayRaw(text, 'verdicts')) AS number;

-- One row a culprit. `suspects` are the commits that it is one of, where they could not be told apart.
CREATE OR REPLACE VIEW torchperf_culprits AS
SELECT
    digest, number, key, taken_at,
    JSONExtractString(text, 'status') AS status,
    JSONExtractString(text, 'repo') AS repo,
    JSONExtractString(text, 'good') AS good,
    JSONExtractString(text, 'bad') AS bad,
    JSONExtractString(item, 'commit') AS commit,
    JSONExtract(item, 'set', 'Array(String)') AS suspects,
    JSONExtract(item, 'posterior', 'Nullable(Float64)') AS posterior,
    JSONExtract(item, 'effect', 'ratio', 'Nullable(Float64)') AS ratio,
    JSONExtract(item, 'effect', 'low', 'Nullable(Float64)') AS low,
    JSONExtract(item, 'effect', 'high', 'Nullable(Float64)') AS high,
    JSONExtractRaw(item, 'series') AS series,
    JSONExtractString(item, 'author') AS author,
    JSONExtractString(item, 'date') AS date,
    JSONExtractString(item, 'subject') AS subject,
    JSONExtractRaw(item, 'pull_request') AS pull_request
FROM (SELECT * FROM torchperf_judged WHERE kind = 'culprits' LIMIT 1 BY digest)
ARRAY JOIN JSONExtractArrayRaw(text, 'culprits') AS item, arrayEnumerate(JSONExtractArrayRaw(text, 'culprits')) AS number;

-- What commits say of themselves, where somebody has told: a clone, or a bisection.
CREATE TABLE IF NOT EXISTS torchperf_commits (
    `commit` String,
    `date` String,
    `author` String,
    `subject` String
) ENGINE = ReplacingMergeTree
ORDER BY commit;
