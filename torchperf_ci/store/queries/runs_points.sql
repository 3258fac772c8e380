-- The results of two periods on one kind of machine, with the columns of `history`. The projection by_run is ordered by
-- machine and time.
SELECT /* point_columns */
FROM /* source */
WHERE (repo, benchmark, device, arch) = ({repo:String}, {benchmark:String}, {device:String}, {arch:String})
    AND (
        timestamp BETWEEN {start:UInt64} AND {end:UInt64} OR timestamp BETWEEN {other_start:UInt64} AND {other_end:UInt64}
    )
SETTINGS precise_float_parsing = 1
