-- The roll-up of some days.
INSERT INTO torchperf_days (
    series, branch, day, rows, points, numbers, value, low, high, failed, first_at, last_at, commit, fingerprints,
    repo, benchmark, model, mode, dtype, backend, device, arch, metric
)
WITH
    arrayMap(each -> assumeNotNull(each.2), groupUniqArrayIf((record_id, number), isNotNull(number))) AS measurements
SELECT
    series, branch, day, count(), uniqExact(record_id), length(measurements),
    if(empty(measurements), NULL, arrayReduce('median', measurements)), min(number), max(number),
    uniqExactIf(record_id, has_failed),
    min(timestamp), max(timestamp), argMax(commit, timestamp), arraySort(groupUniqArray(fingerprint)),
    repo, benchmark, model, mode, dtype, backend, device, arch, metric
FROM (/* outcomes */)
GROUP BY series, branch, day, repo, benchmark, model, mode, dtype, backend, device, arch, metric
