-- The columns of torchperf_values. Of a metric's extra_info they have only what judging needs: the rest is hundreds of
-- samples.
SELECT
    series, timestamp, value, low, high, repetitions, target_value, status, fingerprint, machine, commit, torch, branch,
    workflow_id, run_attempt, job_id, object, record_id,
    repo, benchmark, model, mode, dtype, backend, device, arch, metric,
    torch_device, batch_size, threads, workload_config,
    CAST(
        arrayFilter(info -> info.2 != '', arrayMap(name -> (name, metric_info[name]), [
            'anchor', 'benchmark_values', 'benchmark_values_exact', 'direction', 'disturbed', 'independent',
            'not_measured', 'reason', 'seconds', 'status'
        ])),
        'Map(String, String)'
    ) AS metric_info
FROM (/* points */)
