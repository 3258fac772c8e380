-- All runs on a kind of machine. Runs that name no workflow are distinguished by time or, without one, by place.
SELECT
    branch, commit, max(torch), workflow_id, run_attempt,
    if(workflow_id = 0, timestamp, 0) AS moment,
    if(
        timestamp = 0 AND workflow_id = 0,
        arrayStringConcat(arrayPopBack(splitByChar('/', concat(object.bucket, '/', object.key))), '/'), ''
    ) AS place,
    min(timestamp), max(timestamp)
FROM /* source */
WHERE (repo, benchmark, device, arch) = ({repo:String}, {benchmark:String}, {device:String}, {arch:String})
GROUP BY branch, commit, workflow_id, run_attempt, moment, place
