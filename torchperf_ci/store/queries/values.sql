-- What torchperf_values holds of each result. Of what a metric says beside its numbers only what judging needs: the rest
-- is samples, by the hundred.
SELECT
    series, timestamp, value, low, high, repetitions, target_value, status, fingerprint, machine, commit, torch, branch,
    workflow_id, run_attempt, job_id, object, record_id,
    repo, benchmark, model, mode, dtype, backend, device, arch, metric,
    torch_device, batch_size, threads, workload_config,
    CAST(
        arrayFilter(told -> told.2 != '', arrayMap(name -> (name, metric_info[name]), [
            'anchor', 'benchmark_values', 'benchmark_values_exact', 'direction', 'disturbed', 'not_measured', 'reason',
            'seconds', 'status'
        ])),
        'Map(String, String)'
    ) AS metric_info
FROM (/* points */)
