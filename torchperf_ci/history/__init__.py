"""``torchperf history``: when each series changed its level over the recorded past."""
