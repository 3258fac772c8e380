-- What the runs of some days covered.
INSERT INTO torchperf_runs (
    day, run, repo, benchmark, device, arch, branch, commit, workflow_id, run_attempt, jobs, first_at, last_at, rows, points,
    series, cases
)
WITH
    multiIf(status != '', toString(status), is_pass, 'pass', 'failed') AS outcome,
    arrayMap(each -> each.2, groupUniqArrayIf((record_id, outcome), metric = 'status')) AS words,
    arrayDistinct(words) AS distinct_words
SELECT
    day, run, repo, benchmark, device, arch, branch, commit, workflow_id, run_attempt,
    arraySort(groupUniqArray(job_id)), min(timestamp), max(timestamp), count(), uniqExact(record_id), uniqExact(series),
    CAST(arrayMap(word -> (word, countEqual(words, word)), distinct_words), 'Map(String, UInt64)')
FROM (/* outcomes */)
GROUP BY day, run, repo, benchmark, device, arch, branch, commit, workflow_id, run_attempt
