from __future__ import annotations

import numpy as np
import pytest

from torchperf_ci.stats.past import MAX_EXCURSION, SHORT, last_excursions

RUNS = 120
RISE = 0.05


def noise(seed: int = 3) -> np.ndarray:
    return 0.005 * np.random.default_rng(seed).standard_normal((1, RUNS))


def found(values: np.ndarray, runs: int = 2) -> tuple[int, int]:
    """What is found where the newest runs have risen from zero, or from where they are."""
    level = np.median(values[:, -runs:], axis=1)
    risen = values.copy()
    risen[0, -runs:] += RISE
    length, ago = last_excursions(risen, runs, level)[0].tolist()
    return length, ago


@pytest.mark.parametrize("first", [5, 40, 100])
def test_a_visit_is_what_rose_and_came_back_wherever_it_was(first: int) -> None:
    values = noise()
    values[0, first : first + 4] += RISE
    assert found(values) == (4, RUNS - first - 4)


def test_of_several_the_last_is_told() -> None:
    values = noise()
    for first in (20, 50, 80):
        values[0, first : first + 3] += RISE
    assert found(values) == (3, RUNS - 83)


def test_visits_count_from_where_the_level_was_then() -> None:
    values = noise()
    values[0, 40:44] += RISE
    values[0, 60:] += 0.3
    assert found(values) == (4, RUNS - 44)


@pytest.mark.parametrize(
    "what", ["spike", "step", "old level", "long level", "lower", "higher", "newest", "downwards"]
)
def test_nothing_else_is_a_visit(what: str) -> None:
    values = noise()
    begin, end, by = {
        "spike": (50, 51, RISE),
        "step": (50, RUNS, RISE),
        "old level": (0, 10, RISE),
        "long level": (20, 20 + MAX_EXCURSION + SHORT, RISE),
        "lower": (50, 55, RISE / 2),
        "higher": (50, 55, RISE * 3),
        "newest": (RUNS - 6, RUNS - 2, RISE),
        "downwards": (50, 55, -RISE),
    }[what]
    values[0, begin:end] += by
    assert found(values) == (0, 0)


def test_a_visit_of_half_as_many_runs_tells_enough_and_a_shorter_one_does_not() -> None:
    values = noise()
    values[0, 50:53] += RISE
    assert found(values, runs=5) == (3, RUNS - 53)
    assert found(values, runs=8) == (0, 0)


def test_only_those_of_the_newest_runs_count_that_have_risen() -> None:
    values = noise()
    values[0, 50:53] += RISE
    values[0, -4:] += RISE
    assert last_excursions(values, 8, np.zeros(1)).tolist() == [[3, RUNS - 53]]


def test_a_single_run_that_rose_is_as_high_as_it_is() -> None:
    values = noise()
    values[0, 50:53] += 1.5 * RISE
    assert found(values, runs=1) == (3, RUNS - 53)


def test_a_level_of_a_few_runs_is_a_visit_where_the_one_before_comes_back() -> None:
    values = noise() + RISE
    values[0, -2 - SHORT :] -= RISE
    assert found(values) == (SHORT, 0)
    values[0, -2 - MAX_EXCURSION :] = values[0, -1]
    assert found(values) == (0, 0)


def test_a_longer_one_is_where_it_is_not_the_first() -> None:
    values = noise() + RISE
    values[0, -2 - SHORT - 5 :] -= RISE
    assert found(values) == (0, 0)
    values[0, 30:40] -= RISE
    assert found(values) == (SHORT + 5, 0)


def test_missing_runs_in_front_and_many_series_make_no_difference() -> None:
    values = np.tile(noise(), (3000, 1))
    values[:, 60:63] += RISE
    values[:, -2:] += RISE
    values[1::2, :40] = np.nan
    assert (last_excursions(values, 2, np.zeros(3000)) == [3, RUNS - 63]).all()


def test_a_past_that_is_too_short_has_none() -> None:
    assert found(noise()[:, :5]) == (0, 0)
    assert found(np.full((1, RUNS), np.nan)) == (0, 0)


def test_noise_hardly_hides_what_is_four_times_as_large() -> None:
    values = 0.01 * np.random.default_rng(5).standard_normal((1000, 250))
    values[:, -8:] += 0.04
    for runs in (2, 3, 5, 8):
        assert (last_excursions(values, runs, np.zeros(1000))[:, 0] > 0).mean() < 0.04
