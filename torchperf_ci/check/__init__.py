"""``torchperf check``: did anything change against history? And ``torchperf baseline``, history that is committed."""
