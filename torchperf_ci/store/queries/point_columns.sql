-- The names of a series and the columns of a point, in the order in which points are sorted. `key` is empty unless the point
-- has neither a time nor a workflow run. Float32 becomes the Float64 with the same digits.
repo, benchmark, model, mode, dtype, backend, device, arch, metric, series,
timestamp, if(timestamp = 0 AND workflow_id = 0, concat(object.bucket, '/', object.key), '') AS key, workflow_id, run_attempt,
job_id, branch, commit, arrayMap(number -> toFloat64(toString(number)), repetitions) AS numbers,
fingerprint, batch_size, threads, workload_config, metric_info, torch, record_id
