-- The query of the query API; an empty parameter does not filter. A record that was ingested twice counts once.
SELECT
    timestamp, repo, branch, commit, workflow_id, run_attempt, job_id, benchmark, model, mode, dtype, backend, device, arch,
    metric, value, repetitions, target_value
FROM /* source */
WHERE timestamp >= {start:UInt64} AND ({stop:UInt64} = 0 OR timestamp < {stop:UInt64})
    AND /* series_filter */
    -- The projection by_series finds the series; results that are read by time are filtered without it.
    AND ({by_time:Bool} OR series IN (SELECT series FROM /* source */ WHERE /* series_filter */ GROUP BY series))
    AND ({branch:String} = '' OR branch = replaceRegexpOne({branch:String}, '^refs/heads/', ''))
    AND ({commit:String} = '' OR startsWith(commit, {commit:String}))
ORDER BY timestamp, workflow_id, job_id, benchmark, model, mode, dtype, backend, device, arch, metric
LIMIT 1 BY record_id
SETTINGS output_format_json_escape_forward_slashes = 0, output_format_json_quote_64bit_integers = 0
