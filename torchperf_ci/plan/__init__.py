"""``torchperf plan``: plan which jobs measure, and which regressions are bisected tonight."""
