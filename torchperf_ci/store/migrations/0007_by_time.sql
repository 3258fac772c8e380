-- All series of a kind of machine for a month side by side as well, so that a run, and the past that it is compared with,
-- are read alone. The engine keeps it and takes whichever order has less to read.
ALTER TABLE torchperf_values MODIFY SETTING lightweight_mutation_projection_mode = 'rebuild';
ALTER TABLE torchperf_values ADD PROJECTION IF NOT EXISTS by_time (
    SELECT * ORDER BY repo, benchmark, device, arch, intDiv(timestamp, 2592000), series, timestamp
);
ALTER TABLE torchperf_values MATERIALIZE PROJECTION by_time;
