-- One row a series with its newest points, oldest first; an empty parameter is no filter. A record that was taken in
-- twice counts once. The object is told of one that names no run.
WITH
    timestamp = 0 AND workflow_id = 0 AND job_id = 0 AND commit = '' AS is_nameless,
    arrayFilter(
        told -> told.2 != '',
        arrayMap(
            name -> (name, metric_info[name]),
            ['anchor', 'benchmark_values', 'benchmark_values_exact', 'disturbed', 'not_measured', 'reason', 'status']
        )
    ) AS about_metric,
    (
        timestamp, if(is_nameless, object.key, ''), workflow_id, run_attempt, job_id, branch, commit, repetitions, target_value,
        machine_info['fingerprint'], benchmark_info['batch_size'], benchmark_info['threads'], about_metric,
        dependencies['pytorch'].sha
    ) AS point
SELECT
    repo, benchmark, model, mode, dtype, backend, device, arch, metric,
    arraySlice(
        arrayMap(each -> each.1, arraySort(groupUniqArray((point, record_id)))),
        if({last:UInt64} = 0, 1, -toInt64({last:UInt64}))
    ) AS points
FROM torchperf_points
WHERE timestamp >= {since:UInt64} AND ({stop:UInt64} = 0 OR timestamp < {stop:UInt64})
    AND ({branch:String} = '' OR branch IN ('', replaceRegexpOne({branch:String}, '^refs/heads/', '')))
    AND (
        empty({repos:Array(String)})
        OR has(
            arrayZip({repos:Array(String)}, {benchmarks:Array(String)}, {devices:Array(String)}, {archs:Array(String)}),
            (repo, benchmark, device, arch)
        )
    )
GROUP BY repo, benchmark, model, mode, dtype, backend, device, arch, metric
ORDER BY repo, benchmark, model, mode, dtype, backend, device, arch, metric
SETTINGS output_format_json_quote_64bit_integers = 0, output_format_json_quote_denormals = 1,
    output_format_json_named_tuples_as_objects = 0, output_format_json_escape_forward_slashes = 0
