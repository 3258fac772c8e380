-- One row per result, in no order. A record that was ingested twice is there twice.
SELECT /* point_columns */
FROM /* source */
WHERE /* point_filter */
SETTINGS precise_float_parsing = 1
