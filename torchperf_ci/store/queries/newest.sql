-- The newest results of each series, with the columns of `history`. Rows are read in their order on disk, by series. Without
-- times, the newest are the last by their places, whose numbers count as numbers: `run-10` comes after `run-9`.
SELECT /* point_columns */
FROM (
    SELECT
        *,
        arrayMap(part -> arrayMap(
            piece -> if(match(piece, '^[0-9]'), leftPad(piece, 64, '0'), concat(':', piece)),
            extractAll(part, '[0-9]+|[^0-9]+')
        ), splitByChar('/', if(timestamp = 0 AND workflow_id = 0, concat(object.bucket, '/', object.key), ''))) AS place
    FROM /* source */
    WHERE /* point_filter */
    ORDER BY series DESC, timestamp DESC, place
    LIMIT 1 BY series, record_id
)
ORDER BY series DESC, timestamp DESC, place DESC, workflow_id DESC, run_attempt DESC, job_id DESC
LIMIT {last:UInt64} BY series
SETTINGS precise_float_parsing = 1
