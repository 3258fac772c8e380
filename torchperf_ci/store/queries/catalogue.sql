-- All series, with the time of their first and last result and how many they have, each record once.
SELECT
    repo, benchmark, model, mode, dtype, backend, device, arch, metric,
    min(timestamp), max(timestamp), uniqExact(record_id)
FROM /* answers */
GROUP BY repo, benchmark, model, mode, dtype, backend, device, arch, metric
ORDER BY repo, benchmark, model, mode, dtype, backend, device, arch, metric
