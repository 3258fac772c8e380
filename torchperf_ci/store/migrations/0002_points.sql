-- Only for existing stores: 0006 makes this view for a new one.
-- One flat row a result, under the names that queries use: what every query of the benchmark infrastructure derives.
CREATE OR REPLACE VIEW torchperf_points AS
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
    result._meta AS object
FROM oss_ci_benchmark_v3 AS result;
