-- The points of two stretches of time on one kind of machine, a row each, as `history` has them: the projection by_run has
-- them side by side. A record that was taken in twice counts once.
SELECT
    series, timestamp,
    if(timestamp = 0 AND workflow_id = 0 AND job_id = 0 AND commit = '', object.key, '') AS key, workflow_id, run_attempt,
    job_id, branch, commit, repetitions, target_value, fingerprint, batch_size, threads, workload_config, metric_info, torch
FROM /* answers */
WHERE (repo, benchmark, device, arch) = ({repo:String}, {benchmark:String}, {device:String}, {arch:String})
    AND (
        timestamp BETWEEN {start:UInt64} AND {end:UInt64} OR timestamp BETWEEN {other_start:UInt64} AND {other_end:UInt64}
    )
ORDER BY
    timestamp, key, workflow_id, run_attempt, job_id, branch, commit, repetitions, target_value, fingerprint, batch_size,
    threads, workload_config, mapKeys(metric_info), mapValues(metric_info), torch
LIMIT 1 BY series, record_id
SETTINGS output_format_json_quote_64bit_integers = 0, output_format_json_quote_denormals = 1,
    output_format_json_escape_forward_slashes = 0
