-- The results of two stretches of time on one kind of machine, as `history` has them: the projection by_run has them side by
-- side.
SELECT /* point_columns */
FROM /* answers */
WHERE (repo, benchmark, device, arch) = ({repo:String}, {benchmark:String}, {device:String}, {arch:String})
    AND (
        timestamp BETWEEN {start:UInt64} AND {end:UInt64} OR timestamp BETWEEN {other_start:UInt64} AND {other_end:UInt64}
    )
SETTINGS precise_float_parsing = 1
