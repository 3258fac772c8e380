-- The results of a run side by side, so that they, and the past that a run is compared with, are read alone; by_time had those
-- of a month together, of which a run is a ninetieth.
ALTER TABLE torchperf_values DROP PROJECTION IF EXISTS by_time;
ALTER TABLE torchperf_values ADD PROJECTION IF NOT EXISTS by_run (
    SELECT * ORDER BY repo, benchmark, device, arch, timestamp, series
);
ALTER TABLE torchperf_values MATERIALIZE PROJECTION by_run;

-- And what series there are, so that nobody reads every result to find those of a model, or to see whether there are more.
ALTER TABLE torchperf_values ADD PROJECTION IF NOT EXISTS by_series (
    SELECT series, repo, benchmark, model, mode, dtype, backend, device, arch, metric, count(), sum(record_id)
    GROUP BY series, repo, benchmark, model, mode, dtype, backend, device, arch, metric
);
ALTER TABLE torchperf_values MATERIALIZE PROJECTION by_series;
