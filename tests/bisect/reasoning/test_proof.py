from __future__ import annotations

import numpy as np
import pytest

from torchperf_ci.bisect.reasoning.proof import FEWEST_TO_VERIFY, MOST_PAIRS, confirmed, verified
from torchperf_ci.stats.sprt import FEWEST_PAIRS

MIN_EFFECT = 0.03


def pairs(count: int, effect: float = 0.07, noise: float = 0.004) -> list[float]:
    return list(np.random.default_rng(0).normal(effect, noise, count))


def test_a_name_takes_more_pairs_than_a_suspicion() -> None:
    assert confirmed(pairs(FEWEST_PAIRS + 3), MIN_EFFECT, 1).word == "slower"
    assert verified(pairs(FEWEST_TO_VERIFY - 1), MIN_EFFECT).word == "open"
    assert verified(pairs(FEWEST_TO_VERIFY), MIN_EFFECT).word == "slower"


@pytest.mark.parametrize("effect", [0.0, -0.07])
def test_no_change_and_a_gain_are_no_culprits(effect) -> None:
    assert confirmed(pairs(10, effect), MIN_EFFECT, 1).word == "not slower"
    assert verified(pairs(FEWEST_PAIRS + 3, effect), MIN_EFFECT).word == "not slower", (
        "no more pairs for an innocent"
    )


def test_the_more_cases_the_more_it_takes() -> None:
    unsure = pairs(FEWEST_PAIRS + 3, 0.045, 0.02)
    assert confirmed(unsure, MIN_EFFECT, 1).word == "slower"
    assert confirmed(unsure, MIN_EFFECT, 1000).word == "open"


def test_what_is_not_clear_in_the_end_is_unknown() -> None:
    noisy = pairs(MOST_PAIRS, 0.03, 0.3)
    assert confirmed(noisy[:-1], MIN_EFFECT, 1).word == "open"
    assert confirmed(noisy, MIN_EFFECT, 1).word == verified(noisy, MIN_EFFECT).word == "unknown"


def test_before_the_first_pair_everything_is_open() -> None:
    for proof in (confirmed([], MIN_EFFECT, 1), verified([], MIN_EFFECT)):
        assert (proof.word, proof.log_ratios, proof.decision) == ("open", (), None)
