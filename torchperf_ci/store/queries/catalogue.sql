-- The series of a kind of machine, with the time of their first and last result, and the years (UTC) that have any.
SELECT
    repo, benchmark, model, mode, dtype, backend, device, arch, metric,
    least(min(timestamp), {latest:UInt64}), least(max(timestamp), {latest:UInt64}),
    arraySort(groupUniqArray(toYear(toDateTime64(least(timestamp, {latest:UInt64}), 0, 'UTC'))))
FROM /* source */
WHERE (repo, benchmark, device, arch) = ({repo:String}, {benchmark:String}, {device:String}, {arch:String})
GROUP BY repo, benchmark, model, mode, dtype, backend, device, arch, metric
ORDER BY repo, benchmark, model, mode, dtype, backend, device, arch, metric
