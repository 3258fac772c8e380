-- Insert all incoming objects that are not stored yet as one block, which is stored as a whole or not at all. Without
-- insert_deduplicate = 0, replicated tables drop a block that they had before, also if its rows were deleted since.
INSERT INTO oss_ci_benchmark_v3 (
    /* record_columns */
)
SELECT
    /* record_columns */
FROM torchperf_incoming
WHERE _meta.key NOT IN (
    SELECT _meta.key FROM oss_ci_benchmark_v3
    WHERE _meta.bucket = {bucket:String} AND _meta.key IN (SELECT DISTINCT _meta.key FROM torchperf_incoming)
)
SETTINGS insert_deduplicate = 0, max_insert_threads = 1,
    min_insert_block_size_rows = 1000000000, min_insert_block_size_bytes = 1000000000000
