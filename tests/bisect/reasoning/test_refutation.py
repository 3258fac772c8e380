"""The odds of a claim after fresh pairs that did not prove it."""

from __future__ import annotations

import math

import numpy as np
import pytest

from torchperf_ci.bisect.reasoning.culprit_search import probability_left, with_refutations
from torchperf_ci.bisect.reasoning.proof import KnownLuck, confirmed, verified
from torchperf_ci.stats.build_variance import Readings, tau_prior
from torchperf_ci.stats.posterior import Posterior, posterior

CLAIM = 0.95


def spread(*pairs: float) -> float:
    return probability_left(CLAIM, confirmed({(0, 0): pairs}, 0.03, 1, KnownLuck(0.0, False, (1.0,))))


def test_a_refutation_leaves_an_even_chance_and_what_is_unclear_more_the_less_it_speaks_against() -> None:
    refuted = spread(*[0.001, -0.001] * 10)
    assert refuted == pytest.approx(0.487, abs=0.01)
    assert refuted < spread(0.005, 0.004) < CLAIM
    assert spread(0.03, 0.031, 0.029) == pytest.approx(CLAIM), "such pairs never speak for it"


def test_where_builds_differ_by_luck_a_refutation_weighs_as_much_as_its_builds_and_not_as_its_pairs() -> None:
    luck = KnownLuck(0.003, True, tuple(np.exp(tau_prior(0.003))))
    middles = [0.012 + 0.02 * (-1) ** draw for draw in range(20)]
    proof = verified(
        {(n, n): [middle - 0.001, middle, middle + 0.001] for n, middle in enumerate(middles)}, 0.03, luck
    )
    assert proof.decision is not None
    assert proof.by_build is not None
    assert (proof.word, proof.decision.increase < -7, proof.by_build.increase > -3) == ("unknown", True, True)
    odds = CLAIM / (1 - CLAIM) * math.exp(proof.by_build.increase)
    assert probability_left(CLAIM, proof) == pytest.approx(odds / (1 + odds)), (
        "0.53, where pairs would say 0.01"
    )


def test_what_one_gap_loses_the_others_get_in_proportion() -> None:
    gaps = np.array([0.90, 0.06, 0.03])
    suspects = np.array([0.45, 0.45, 0.06, 0.01, 0.02])
    found = Posterior(suspects, 0.01, np.array([0, 2, 3, 5]), gaps, [], 0.0)
    less = with_refutations(found, {0: 0.45})
    assert less.gaps == pytest.approx([0.45, 0.36, 0.18])
    assert less.suspects == pytest.approx([0.225, 0.225, 0.36, 0.06, 0.12])
    assert math.isclose(less.suspects.sum() + less.none, 1.0)
    assert with_refutations(found, {1: 0.5}) is found


def test_a_refuted_step_that_was_all_but_certain_leaves_its_probability_to_the_other_suspects() -> None:
    """Twelve series agree on it, until one of them takes fresh pairs."""
    heads = np.repeat([70, 35, 43, 44, 52], 3)
    noise = np.random.default_rng(1).normal(0, 0.005, (12, heads.size))
    bases = np.zeros_like(heads)
    found = posterior(
        np.full(70, 1 / 70), [Readings(bases, heads, 0.1 * (heads > 43) + row) for row in noise], 0.03
    )
    less = with_refutations(found, {2: 0.487})
    assert less.gaps == pytest.approx([*less.gaps[:2], 0.487, *less.gaps[3:]])
    assert less.suspects.sum() + less.none == pytest.approx(1.0)
