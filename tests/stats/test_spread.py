from __future__ import annotations

import pytest

from torchperf_ci.stats.effect import relative_spread, wide_spread


def test_the_spread_is_the_largest_over_the_smallest() -> None:
    assert relative_spread([2.0, 3.0, 2.5]) == pytest.approx(0.5)
    assert relative_spread([2.0, 2.0]) == 0


@pytest.mark.parametrize("values", [[], [1.0], [0.0, 1.0], [-1.0, 1.0]])
def test_what_has_no_spread(values: list[float]) -> None:
    assert relative_spread(values) is None


def test_the_typical_case_counts_not_one_that_is_shaky_by_itself() -> None:
    assert wide_spread([[1.0, 1.05], [1.0, 1.02], [1.0, 9.0]]) is None
    assert wide_spread([[1.0, 1.05], [1.0, 1.2], [1.0, 1.3], [1.0]]) == pytest.approx(0.2)
    assert wide_spread([]) is None
