"""``torchperf watch``: check that the scheduled benchmarks ran, and open an issue if they did not."""
