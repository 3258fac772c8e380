"""``torchperf init``: set up a repository by writing starter files that fit its content."""
