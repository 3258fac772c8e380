-- Only for existing stores: 0006 makes all of this for a new one.
-- The views again, and the values as they tell them now, which are filled anew when the store is opened: of harnesses that
-- list no facts, the models of the processors tell what may be compared, and a record without a run counts once.
CREATE OR REPLACE VIEW torchperf_points AS /* points */;
ALTER TABLE torchperf_fill_values MODIFY QUERY /* values */;
TRUNCATE TABLE torchperf_values;
