"""The odds of a claim after fresh pairs that did not prove it."""

from __future__ import annotations

import math

import numpy as np
import pytest

from torchperf_ci.bisect.reasoning.culprit_search import probability_left, with_refutations
from torchperf_ci.bisect.reasoning.proof import KnownLuck, confirmed
from torchperf_ci.stats.posterior import Posterior

CLAIM = 0.95


def spread(*pairs: float) -> float:
    return probability_left(CLAIM, confirmed({(0, 0): pairs}, 0.03, 1, KnownLuck(0.0, False, (1.0,))))


def test_a_refutation_leaves_an_even_chance_and_what_is_unclear_more_the_less_it_speaks_against() -> None:
    refuted = spread(*[0.001, -0.001] * 10)
    assert refuted == pytest.approx(0.487, abs=0.01)
    assert refuted < spread(0.005, 0.004) < CLAIM
    assert spread(0.03, 0.031, 0.029) == pytest.approx(CLAIM), "such pairs never speak for it"


def test_what_one_gap_loses_the_others_get_in_proportion() -> None:
    gaps = np.array([0.90, 0.06, 0.03])
    suspects = np.array([0.45, 0.45, 0.06, 0.01, 0.02])
    found = Posterior(suspects, 0.01, np.array([0, 2, 3, 5]), gaps, [], 0.0)
    less = with_refutations(found, {0: 0.45})
    assert less.gaps == pytest.approx([0.45, 0.36, 0.18])
    assert less.suspects == pytest.approx([0.225, 0.225, 0.36, 0.06, 0.12])
    assert math.isclose(less.suspects.sum() + less.none, 1.0)
    assert with_refutations(found, {1: 0.5}) is found
