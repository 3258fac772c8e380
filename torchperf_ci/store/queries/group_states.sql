-- What there is of each kind of machine: its results counted, and a number that is another one as soon as they are others.
-- The projection by_series knows both of each series.
SELECT repo, benchmark, device, arch, count(), sum(record_id)
FROM /* answers */
GROUP BY repo, benchmark, device, arch
ORDER BY repo, benchmark, device, arch
