-- Fill in the values of some days, which are missing if a kill came between results and materialized view.
INSERT INTO torchperf_values (
    series, timestamp, value, low, high, repetitions, target_value, status, fingerprint, machine, commit, torch, branch,
    workflow_id, run_attempt, job_id, object, record_id,
    repo, benchmark, model, mode, dtype, backend, device, arch, metric,
    torch_device, batch_size, threads, workload_config, metric_info
)
SELECT * FROM (/* values */) WHERE timestamp BETWEEN {start:UInt64} AND {last:UInt64}
SETTINGS insert_deduplicate = 0
