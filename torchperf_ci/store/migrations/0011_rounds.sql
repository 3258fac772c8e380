-- Only for existing stores: 0006 makes all of this for a new one.
-- As 0009: the values also tell which repetitions are rounds of one process, as imported results may be.
ALTER TABLE torchperf_fill_values MODIFY QUERY /* values */;
TRUNCATE TABLE torchperf_values;
