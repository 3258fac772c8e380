-- One flat row a result, under the names that queries use: what every query of the benchmark infrastructure derives, and
-- what torchperf asks for besides. The view torchperf_points is this.
SELECT
    result.timestamp AS timestamp,
    result.repo AS repo,
    replaceRegexpOne(result.head_branch, '^refs/heads/', '') AS branch,
    result.head_sha AS commit,
    result.workflow_id AS workflow_id,
    result.run_attempt AS run_attempt,
    result.job_id AS job_id,
    result.benchmark.name AS benchmark,
    result.model.name AS model,
    result.benchmark.mode AS mode,
    result.benchmark.dtype AS dtype,
    result.model.backend AS backend,
    -- The first machine's; else what the benchmark says of itself. What is not there is the empty string.
    multiIf(
        result.runners[1].name != '', result.runners[1].name,
        result.benchmark.extra_info['device'] != '', result.benchmark.extra_info['device'],
        'cpu'
    ) AS device,
    multiIf(
        result.runners[1].type != '', result.runners[1].type,
        result.benchmark.extra_info['arch'] != '', result.benchmark.extra_info['arch'],
        result.runners[1].cpu_info
    ) AS arch,
    result.metric.name AS metric,
    -- The median of the repetitions; null where a result is a word, not a number
    if(empty(result.metric.benchmark_values), NULL, arrayReduce('median', result.metric.benchmark_values)) AS value,
    result.metric.benchmark_values AS repetitions,
    result.metric.target_value AS target_value,
    result.metric.extra_info AS metric_info,
    result.benchmark.extra_info AS benchmark_info,
    result.model.extra_info AS model_info,
    result.dependencies AS dependencies,
    result._meta AS object,
    result.runners[1].extra_info AS machine_info,
    -- Who measured what, when, where, and the numbers, but not by which upload. One that names no run is only itself within
    -- its object: another run may have measured the same.
    cityHash64(
        result.timestamp, result.repo, result.head_branch, result.head_sha, result.workflow_id, result.run_attempt,
        result.job_id, result.servicelab_experiment_id, result.servicelab_trial_id, result.runners.name,
        result.runners.type, result.benchmark, result.model, result.metric.name, result.metric.benchmark_values,
        result.metric.target_value,
        if(
            result.timestamp = 0 AND result.workflow_id = 0 AND result.job_id = 0 AND result.head_sha = '',
            result._meta, ('', '')
        )
    ) AS record_id,
    -- What a series is called where it needs a short name: 10 hex digits of the nine names, each behind its length in bytes.
    -- `Series.id` in Python computes the same.
    /* series_id */ AS series,
    if(empty(repetitions), NULL, arrayMin(repetitions)) AS low,
    if(empty(repetitions), NULL, arrayMax(repetitions)) AS high,
    metric_info['status'] AS status,
    machine_info['fingerprint'] AS fingerprint,
    -- The facts that must be equal for two points to be compared, as JSON: few texts, however many rows
    toValidUTF8(toJSONString(CAST(
        arrayFilter(fact -> fact.2 != '', arrayMap(
            name -> (name, machine_info[name]),
            arrayDistinct(arrayPushFront(splitByChar(',', machine_info['fingerprint_of']), 'fingerprint_of'))
        )),
        'Map(String, String)'
    ))) AS machine,
    benchmark_info['device'] AS torch_device,
    benchmark_info['batch_size'] AS batch_size,
    benchmark_info['threads'] AS threads,
    benchmark_info['workload_config'] AS workload_config,
    dependencies['pytorch'].sha AS torch
FROM oss_ci_benchmark_v3 AS result
