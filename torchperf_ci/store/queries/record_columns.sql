-- The columns of a record. The table may have more, added by the server's operator.
timestamp, schema_version, name, repo, head_branch, head_sha, workflow_id, run_attempt, job_id, servicelab_experiment_id,
servicelab_trial_id, _meta, runners, benchmark, model, inputs, dependencies, metric
