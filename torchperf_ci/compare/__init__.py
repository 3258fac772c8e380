"""``torchperf compare``: compare two builds in pairs on this machine, or two directories of records."""
