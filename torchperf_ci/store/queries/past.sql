-- One row for each series of a kind of machine, and each machine, with what it has measured, in no order: whether all
-- of that is plain, numbers that no word beside them makes others; their least and their greatest; times, ids,
-- targets and the two numbers in the middle of the repetitions. A record that was taken in twice is there twice,
-- under one id. No ids are told where each time is another one, and the upper of the middle numbers not where there
-- are odd numbers of them: less than half is left to say.
SELECT
    series, fingerprint, batch_size, threads, workload_config,
    min(
        ifNull(low, 0) > 0 AND isFinite(arraySum(repetitions)) AND isFinite(target_value)
        AND hasAll(['status', 'seconds'], mapKeys(metric_info)) AND status IN ('', 'pass')
    ),
    min(low), max(high),
    groupArray(timestamp) AS times, if(length(arrayDistinct(times)) = count(), [], groupArray(record_id)),
    groupArray(target_value),
    groupArray(arraySort(repetitions)[intDiv(length(repetitions) + 1, 2)]),
    if(min(length(repetitions) % 2), [], groupArray(arraySort(repetitions)[intDiv(length(repetitions), 2) + 1]))
FROM /* answers */
WHERE (repo, benchmark, device, arch) = ({repo:String}, {benchmark:String}, {device:String}, {arch:String})
    AND timestamp >= {since:UInt64} AND timestamp < {stop:UInt64}
    AND ({branch:String} = '' OR branch IN ('', {branch:String}))
GROUP BY series, fingerprint, batch_size, threads, workload_config
SETTINGS output_format_json_quote_64bit_integers = 0, output_format_json_quote_denormals = 1,
    output_format_json_escape_forward_slashes = 0
