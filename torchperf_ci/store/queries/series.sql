-- The query API's question; an empty parameter is no filter. A record that was taken in twice counts once.
SELECT
    timestamp, repo, branch, commit, workflow_id, run_attempt, job_id, benchmark, model, mode, dtype, backend, device, arch,
    metric, value, repetitions, target_value
FROM /* answers */
WHERE timestamp >= {start:UInt64} AND ({stop:UInt64} = 0 OR timestamp < {stop:UInt64})
    AND ({repo:String} = '' OR repo = {repo:String})
    AND ({benchmark:String} = '' OR benchmark = {benchmark:String})
    AND (empty({models:Array(String)}) OR has({models:Array(String)}, model))
    AND (empty({metrics:Array(String)}) OR has({metrics:Array(String)}, metric))
    AND ({device:String} = '' OR device = {device:String})
    AND ({arch:String} = '' OR position(arch, {arch:String}) > 0)
    AND ({branch:String} = '' OR branch = replaceRegexpOne({branch:String}, '^refs/heads/', ''))
    AND ({commit:String} = '' OR startsWith(commit, {commit:String}))
ORDER BY timestamp, workflow_id, job_id, benchmark, model, mode, dtype, backend, device, arch, metric
LIMIT 1 BY record_id
SETTINGS output_format_json_escape_forward_slashes = 0, output_format_json_quote_64bit_integers = 0
