-- The query API's question; an empty parameter is no filter. A record that was taken in twice counts once.
SELECT
    timestamp, repo, branch, commit, workflow_id, run_attempt, job_id, benchmark, model, mode, dtype, backend, device, arch,
    metric, value, repetitions, target_value
FROM /* answers */
WHERE timestamp >= {start:UInt64} AND ({stop:UInt64} = 0 OR timestamp < {stop:UInt64})
    AND /* named */
    -- The projection by_series knows which they are; where results are read by their time, they need not be known.
    AND ({by_time:Bool} OR series IN (SELECT series FROM /* answers */ WHERE /* named */ GROUP BY series))
    AND ({branch:String} = '' OR branch = replaceRegexpOne({branch:String}, '^refs/heads/', ''))
    AND ({commit:String} = '' OR startsWith(commit, {commit:String}))
ORDER BY timestamp, workflow_id, job_id, benchmark, model, mode, dtype, backend, device, arch, metric
LIMIT 1 BY record_id
SETTINGS output_format_json_escape_forward_slashes = 0, output_format_json_quote_64bit_integers = 0
