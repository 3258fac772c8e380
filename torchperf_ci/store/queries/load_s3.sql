-- Load a batch of objects from S3. Columns are named, because records may have other members.
INSERT INTO torchperf_incoming (
    timestamp, schema_version, name, repo, head_branch, head_sha, workflow_id, run_attempt, job_id,
    servicelab_experiment_id, servicelab_trial_id, _meta, runners, benchmark, model, inputs, dependencies, metric
)
SELECT
    timestamp, schema_version, name, repo, head_branch, head_sha, workflow_id, run_attempt, job_id,
    servicelab_experiment_id, servicelab_trial_id,
    ({bucket:String}, substring(_path, length({bucket:String}) + 2)),
    runners, benchmark, model, inputs, dependencies, metric
FROM /* objects */
WHERE _path IN {paths:Array(String)}
SETTINGS s3_retry_attempts = 5, s3_connect_timeout_ms = 5000, s3_request_timeout_ms = 30000, http_max_tries = 3,
    use_hive_partitioning = 0
