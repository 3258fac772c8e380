"""``torchperf watch``: did the scheduled benchmarks run?"""
