"""What torchperf's HTTP servers stand on: they listen, let no client take forever, and end well. Extra ``web``."""
