from __future__ import annotations

import numpy as np
import pytest

from torchperf_ci.stats.noise import MAX_SCORE, learn_tails, tail_probability

MANY = np.array([1e6])
"""Degrees of freedom of a σ that is known."""


@pytest.mark.parametrize(
    "draw",
    [
        lambda r: r.standard_normal(100_000),
        lambda r: r.standard_t(3, 100_000),
        lambda r: np.where(r.random(100_000) < 0.02, r.uniform(5, 50, 100_000), r.standard_normal(100_000)),
    ],
    ids=["normal", "heavy tails", "spikes upwards"],
)
def test_scores_are_standard_normal_whatever_the_noise(draw) -> None:
    random = np.random.default_rng(2)
    tails, fresh = learn_tails(draw(random)), draw(random)
    for sign in (1, -1):
        scores = sign * tails.score(fresh, MANY)
        for p in (0.1, 0.01, 0.001):
            assert (tail_probability(scores) < p).mean() == pytest.approx(p, rel=0.35)


def test_before_anything_is_seen_tails_are_believed_to_be_heavy() -> None:
    score = learn_tails(np.empty(0)).score(np.array([2.776]), MANY)
    assert tail_probability(score) == pytest.approx(0.025, rel=0.05)


def test_one_run_alone_never_counts_for_more_than_the_limit() -> None:
    tails = learn_tails(np.random.default_rng(2).standard_normal(100_000))
    np.testing.assert_array_equal(tails.score(np.array([1e9, -1e9]), MANY), [MAX_SCORE, -MAX_SCORE])


def test_an_uncertain_sigma_makes_a_deviation_less_surprising() -> None:
    tails = learn_tails(np.random.default_rng(2).standard_normal(100_000))
    sure, unsure = tails.score(np.array([3.0, 3.0]), np.array([1e6, 2.0]))
    assert unsure < sure - 0.5


def test_deviation_is_the_inverse_of_score() -> None:
    tails = learn_tails(np.random.default_rng(2).standard_t(4, 100_000))
    for df in (2.0, 16.0, 1e6):
        z = tails.deviation(np.array([1.0, 2.0]), np.array([df]))
        np.testing.assert_allclose(tails.score(z, np.array([df])), [1.0, 2.0], atol=0.1)
