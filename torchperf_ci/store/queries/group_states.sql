-- The number of results of each kind of machine, and a checksum of them. The projection by_series has both per series.
SELECT repo, benchmark, device, arch, count(), sum(record_id)
FROM /* source */
GROUP BY repo, benchmark, device, arch
ORDER BY repo, benchmark, device, arch
