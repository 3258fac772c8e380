-- The names of a series and what a point of it is made of, in the order in which points are sorted. The object is told of one
-- that names neither its time nor a workflow run; Float32 becomes the Float64 with the same digits.
repo, benchmark, model, mode, dtype, backend, device, arch, metric, series,
timestamp, if(timestamp = 0 AND workflow_id = 0, concat(object.bucket, '/', object.key), '') AS key, workflow_id, run_attempt,
job_id, branch, commit, arrayMap(number -> toFloat64(toString(number)), repetitions) AS numbers,
toFloat64(toString(target_value)) AS target, fingerprint, batch_size, threads, workload_config, metric_info, torch,
record_id
