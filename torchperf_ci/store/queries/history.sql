-- One row a series with its newest points, oldest first; an empty parameter is no filter. A record that was taken in
-- twice counts once. The object is told of one that names no run. Rows are read as they lie, series by series.
SELECT
    repo, benchmark, model, mode, dtype, backend, device, arch, metric, arraySort(groupArray(point)) AS points
FROM (
    SELECT
        series, repo, benchmark, model, mode, dtype, backend, device, arch, metric,
        timestamp = 0 AND workflow_id = 0 AND job_id = 0 AND commit = '' AS is_nameless,
        (
            timestamp, if(is_nameless, object.key, ''), workflow_id, run_attempt, job_id, branch, commit, repetitions,
            target_value, fingerprint, batch_size, threads, workload_config, metric_info, torch
        ) AS point
    FROM (
        SELECT *
        FROM /* answers */
        WHERE /* asked */
        ORDER BY series DESC, timestamp DESC
        LIMIT 1 BY series, record_id
    )
    ORDER BY series DESC, timestamp DESC
    LIMIT {last:UInt64} BY series
)
GROUP BY series, repo, benchmark, model, mode, dtype, backend, device, arch, metric
ORDER BY repo, benchmark, model, mode, dtype, backend, device, arch, metric
SETTINGS output_format_json_quote_64bit_integers = 0, output_format_json_quote_denormals = 1,
    output_format_json_named_tuples_as_objects = 0, output_format_json_escape_forward_slashes = 0
