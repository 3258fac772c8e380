-- A table with a projection can delete rows by DELETE FROM. They stay in the projection, until 26.8 at least, so torchperf
-- does not. (Until 0008 existed, this also made the projection that 0008 drops; making and dropping it fails where several
-- processes migrate a store at once.)
ALTER TABLE torchperf_values MODIFY SETTING lightweight_mutation_projection_mode = 'rebuild';
