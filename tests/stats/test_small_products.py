from __future__ import annotations

import numpy as np
import pytest

from torchperf_ci.stats.level_grid import MAX_MULTIPLICATIONS, small_product


@pytest.mark.parametrize(
    "shape", [(3, 4, 5), (700, 90, 90), (12, 400, 600), (5, MAX_MULTIPLICATIONS, 3), (1, 400, 700)]
)
def test_slices_make_the_whole_product(shape: tuple[int, int, int]) -> None:
    rows, inner, columns = shape
    random = np.random.default_rng(1)
    left, right = random.normal(size=(rows, inner)), random.normal(size=(inner, columns))
    assert small_product(left, right) == pytest.approx(left @ right)
