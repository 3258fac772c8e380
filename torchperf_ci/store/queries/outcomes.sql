-- The results of some days, by the rules that judging has for them (series/outcomes.py): of what is positive by nature a
-- zero is no number, and nothing is a number where the case's status in the same run is not a pass. Whoever counts has
-- each record_id once.
WITH
    multiIf(
        workflow_id != 0, concat(toString(workflow_id), '.', toString(run_attempt)),
        commit != '' OR timestamp != 0, concat(commit, '@', if(timestamp != 0, toString(timestamp), folder)),
        folder
    ) AS run,
    arrayStringConcat(arrayPopBack(splitByChar('/', object.key)), '/') AS folder,
    cityHash64(repo, benchmark, model, mode, dtype, backend, device, arch, run) AS case_in_run,
    multiIf(
        lower(status) IN ('unsupported', 'skipped'), false,
        notEmpty(repetitions), arrayMin(repetitions) = 1,
        startsWith(lower(status), 'pass')
    ) AS is_pass,
    within AS (SELECT * FROM (/* values */) WHERE timestamp BETWEEN {start:UInt64} AND {last:UInt64})
SELECT
    *, run, is_pass,
    intDiv(timestamp, 86400) * 86400 AS day,
    case_in_run IN (SELECT case_in_run FROM within WHERE metric = 'status' AND NOT is_pass) AS has_failed,
    arrayFilter(number -> isFinite(number) AND (number > 0 OR metric NOT IN {positive:Array(String)}), repetitions) AS measured,
    if(empty(measured) OR (has_failed AND metric != 'status'), NULL, arrayReduce('median', measured)) AS number
FROM within
