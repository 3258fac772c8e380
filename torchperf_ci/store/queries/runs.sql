-- All runs on a kind of machine, in no order, under the names that `run_of` gives them. A run may have several branches and
-- commits, such as before and after a branch was renamed: the first one counts. Its commit is PyTorch's, unless the commits of
-- the repository whose jobs measured are more: then that repository uses PyTorch, and is what is measured.
SELECT
    multiIf(
        workflow_id != 0, concat(toString(workflow_id), '.', toString(run_attempt)),
        moment != 0, concat(commit, '@', toString(moment)),
        commit != '', concat(place, '@', commit),
        place
    ) AS run,
    argMin(branch, (first, branch, commit)),
    argMin(measured, (first, branch, commit)),
    least(min(first), {latest:UInt64}) AS begun,
    least(max(last), {latest:UInt64}),
    -- Ids that GitHub did not assign have no page there.
    if(
        any(workflow_id) = 0 OR any(workflow_id) >= {synthetic:UInt64}, '',
        concat({server:String}, '/', {repo:String}, '/actions/runs/', toString(any(workflow_id)))
    )
FROM (
    SELECT
        branch, commit, workflow_id, run_attempt,
        if(workflow_id = 0, timestamp, 0) AS moment,
        if(
            timestamp = 0 AND workflow_id = 0,
            arrayStringConcat(arrayPopBack(splitByChar('/', concat(object.bucket, '/', object.key))), '/'), ''
        ) AS place,
        min(timestamp) AS first, max(timestamp) AS last,
        max(torch) AS pytorch,
        uniqExactIf(max(torch), max(torch) != '') OVER () AS pytorches,
        uniqExactIf(commit, commit != '') OVER () AS commits,
        if(pytorch != '' AND pytorches >= commits, pytorch, commit) AS measured
    FROM /* source */
    WHERE (repo, benchmark, device, arch) = ({repo:String}, {benchmark:String}, {device:String}, {arch:String})
    GROUP BY branch, commit, workflow_id, run_attempt, moment, place
)
GROUP BY run
