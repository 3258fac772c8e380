-- One flat row per result, with the columns that the queries of the benchmark infrastructure derive, and those that only
-- torchperf needs. This is the view torchperf_points.
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
    -- Of the first machine, else of the benchmark; empty if unknown.
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
    -- Of the first machine. Other harnesses list no facts that must be equal to compare: those are then its processors.
    if(
        result.runners[1].extra_info['fingerprint_of'] != ''
        OR (result.runners[1].cpu_info, result.runners[1].cpu_count) = ('', 0)
        AND (result.runners[1].gpu_info, result.runners[1].gpu_count) = ('', 0),
        result.runners[1].extra_info,
        mapUpdate(result.runners[1].extra_info, map(
            'fingerprint_of', 'cpu_info,cpu_count,gpu_info,gpu_count',
            'cpu_info', result.runners[1].cpu_info,
            'cpu_count', if(result.runners[1].cpu_count = 0, '', toString(result.runners[1].cpu_count)),
            'gpu_info', result.runners[1].gpu_info,
            'gpu_count', if(result.runners[1].gpu_count = 0, '', toString(result.runners[1].gpu_count))
        ))
    ) AS machine_info,
    -- Identifies a record by all of its fields except for the upload. If it names no run, its place is part of the identity,
    -- because another run may have measured the same.
    cityHash64(
        result.timestamp, result.repo, result.head_branch, result.head_sha, result.workflow_id, result.run_attempt,
        result.job_id, result.servicelab_experiment_id, result.servicelab_trial_id, result.runners.name,
        result.runners.type, result.benchmark, result.model, result.metric.name, result.metric.benchmark_values,
        result.metric.target_value,
        if(
            result.timestamp = 0 AND result.workflow_id = 0 AND result.job_id = 0 AND result.head_sha = '',
            ('', concat(result._meta.bucket, '/', result._meta.key)), ('', '')
        )
    ) AS record_id,
    -- A short ID of the series: 10 hex digits of the nine names, each prefixed by its length in bytes. `Series.id` in Python
    -- computes the same.
    /* series_id */ AS series,
    if(empty(repetitions), NULL, arrayMin(repetitions)) AS low,
    if(empty(repetitions), NULL, arrayMax(repetitions)) AS high,
    metric_info['status'] AS status,
    if(
        result.runners[1].extra_info['fingerprint'] != '' AND result.runners[1].extra_info['fingerprint_of'] != ''
        OR machine_info['fingerprint_of'] = '',
        machine_info['fingerprint'],
        hex(cityHash64(machine))
    ) AS fingerprint,
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
