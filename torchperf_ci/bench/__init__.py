"""How workloads are measured: the parent process drives workers that run in the environment under test."""
