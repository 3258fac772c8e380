-- One row per series and machine of a kind of machine, in no order: whether all values are plain numbers of runs that
-- passed; the smallest and the largest one; and times, record IDs, and lower and upper median of the
-- repetitions as lists. A record that was ingested twice is listed twice, with one ID. IDs are left out if all times
-- differ, and upper medians if all repetitions are odd in number, which halves the answer.
SELECT
    series, fingerprint, batch_size, threads, workload_config,
    min(
        ifNull(low, 0) > 0 AND isFinite(arraySum(repetitions)) AND status IN ('', 'pass')
        -- What says more, such as a direction or exact values, may change how the values are read.
        AND hasAll(
            ['disturbed', 'independent', 'not_measured', 'reason', 'seconds', 'status'], mapKeys(metric_info)
        )
    ),
    min(low), max(high),
    groupArray(timestamp) AS times, if(length(arrayDistinct(times)) = count(), [], groupArray(record_id)),
    groupArray(arraySort(repetitions)[intDiv(length(repetitions) + 1, 2)]),
    if(min(length(repetitions) % 2), [], groupArray(arraySort(repetitions)[intDiv(length(repetitions), 2) + 1]))
FROM /* source */
WHERE (repo, benchmark, device, arch) = ({repo:String}, {benchmark:String}, {device:String}, {arch:String})
    AND timestamp >= {since:UInt64} AND timestamp < {stop:UInt64}
    AND ({branch:String} = '' OR branch IN ('', {branch:String}))
GROUP BY series, fingerprint, batch_size, threads, workload_config
SETTINGS output_format_json_quote_64bit_integers = 0, output_format_json_quote_denormals = 1,
    output_format_json_escape_forward_slashes = 0
