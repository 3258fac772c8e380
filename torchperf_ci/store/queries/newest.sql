-- The newest results of each series, as `history` has them. Rows are read as they lie, series by series.
SELECT /* point_columns */
FROM (
    SELECT *
    FROM /* answers */
    WHERE /* asked */
    ORDER BY series DESC, timestamp DESC
    LIMIT 1 BY series, record_id
)
ORDER BY series DESC, timestamp DESC
LIMIT {last:UInt64} BY series
SETTINGS precise_float_parsing = 1
