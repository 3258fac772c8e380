-- What there is of each kind of machine: its results counted, and a number that is another one as soon as they are others.
-- Series by series, as they lie there, which takes a third of the time.
SELECT repo, benchmark, device, arch, sum(results), sum(records)
FROM (
    SELECT
        any(repo) AS repo, any(benchmark) AS benchmark, any(device) AS device, any(arch) AS arch,
        count() AS results, sum(record_id) AS records
    FROM /* answers */
    GROUP BY series
)
GROUP BY repo, benchmark, device, arch
ORDER BY repo, benchmark, device, arch
SETTINGS optimize_aggregation_in_order = 1
