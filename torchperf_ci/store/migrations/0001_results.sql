-- The benchmark results table of the PyTorch OSS benchmark infrastructure (schema v3), column for column, so that its
-- queries and dashboards work on ours unchanged. The replicated engine's arguments are left out: they are the cluster's.
CREATE TABLE IF NOT EXISTS oss_ci_benchmark_v3 (
    -- When and what: Unix time in seconds, the version of this format, the name of the benchmark run
    `timestamp` UInt64,
    `schema_version` String DEFAULT 'v3',
    `name` String,
    -- The change that was measured
    `repo` String DEFAULT 'pytorch/pytorch',
    `head_branch` String,
    `head_sha` String,
    `workflow_id` UInt64,
    `run_attempt` UInt32,
    `job_id` UInt64,
    -- Zero unless the result comes from ServiceLab
    `servicelab_experiment_id` UInt64 DEFAULT '0',
    `servicelab_trial_id` UInt64 DEFAULT '0',
    -- The object that the row was read from
    `_meta` Tuple(bucket String, key String),
    -- The machines, more than one where the benchmark is distributed; every query derives device and arch from the first
    `runners` Array(
        Tuple(
            name String,
            type String,
            cpu_info String,
            cpu_count UInt32,
            mem_info String,
            avail_mem_in_gb UInt32,
            gpu_info String,
            gpu_count UInt32,
            gpu_mem_info String,
            avail_gpu_mem_in_gb UInt32,
            extra_info Map(String, String)
        )
    ),
    `benchmark` Tuple(
        name String,
        mode String,
        dtype String,
        extra_info Map(String, String)
    ),
    `model` Tuple(
        name String,
        type String,
        backend String,
        origins Array(String),
        extra_info Map(String, String)
    ),
    -- By the input's name
    `inputs` Map(
        String,
        Tuple(dtype String, extra_info Map(String, String))
    ),
    -- By the library's name
    `dependencies` Map(
        String,
        Tuple(
            repo String,
            branch String,
            sha String,
            version String,
            extra_info Map(String, String)
        )
    ),
    -- One value a repetition
    `metric` Tuple(
        name String,
        benchmark_values Array(Float32),
        target_value Float32,
        extra_info Map(String, String)
    )
) ENGINE = MergeTree
ORDER BY (
    timestamp,
    head_branch,
    head_sha,
    workflow_id,
    job_id,
    servicelab_experiment_id,
    servicelab_trial_id
);
