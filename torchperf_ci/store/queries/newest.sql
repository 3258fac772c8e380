-- The newest results of each series, with the columns of `history`. Rows are read in their order on disk, by series.
SELECT /* point_columns */
FROM (
    SELECT *
    FROM /* source */
    WHERE /* point_filter */
    ORDER BY series DESC, timestamp DESC
    LIMIT 1 BY series, record_id
)
ORDER BY series DESC, timestamp DESC
LIMIT {last:UInt64} BY series
SETTINGS precise_float_parsing = 1
