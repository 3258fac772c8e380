"""The information of one reading, in bits."""

from __future__ import annotations

import math

import pytest

from torchperf_ci.stats.posterior import capacity


def test_it_goes_from_nothing_to_one_bit() -> None:
    assert capacity(-1.0) == capacity(0.0) == pytest.approx(0.0, abs=1e-9)
    assert capacity(10.0) == pytest.approx(1.0, abs=1e-4)


def test_of_levels_that_are_close_it_is_that_of_any_input() -> None:
    """To first order, half of the signal-to-noise ratio in nats."""
    assert capacity(0.2) == pytest.approx(0.1**2 / 2 / math.log(2), rel=0.02)
