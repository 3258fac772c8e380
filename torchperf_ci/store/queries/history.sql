-- A row for each result, in no order; an empty parameter is no filter. A record that was taken in twice is there twice.
SELECT /* point_columns */
FROM /* answers */
WHERE /* asked */
SETTINGS precise_float_parsing = 1
