-- Only for existing stores: rows that were deleted may be left in the projection by_run.
TRUNCATE TABLE torchperf_values;
