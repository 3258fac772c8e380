"""Levels among other levels: true ones are kept, and apparent ones are dropped."""

from __future__ import annotations

import numpy as np
import pytest

from torchperf_ci.stats import segmentation
from torchperf_ci.stats.local_evidence import LocalEvidence, NoisySeries
from torchperf_ci.stats.segmentation import EvidenceCache, change_points, window_of


def levels(*lengths_and_levels: tuple[int, float], sigma: float = 0.01, seed: int = 0) -> np.ndarray:
    """Normal noise around one level after the other, each for so many runs."""
    lengths, heights = zip(*lengths_and_levels, strict=True)
    return np.repeat(heights, lengths) + np.random.default_rng(seed).normal(scale=sigma, size=sum(lengths))


def found(values: np.ndarray) -> list[int]:
    return change_points(values[None])[0].tolist()


def near(places: list[int], expected: list[int]) -> bool:
    return len(places) == len(expected) and all(
        abs(a - b) <= 2 for a, b in zip(places, expected, strict=True)
    )


@pytest.mark.parametrize("seed", range(5))
def test_short_levels_in_a_long_series_are_found(seed: int) -> None:
    """By ranks among themselves, 10 against 12 runs are never clear enough in 800."""
    values = levels((400, 0), (10, 0.1), (12, 0.2), (378, 0.06), seed=seed)
    assert near(found(values), [400, 410, 422])


@pytest.mark.parametrize("seed", range(5))
def test_a_stair_of_short_levels_does_not_fall_together(seed: int) -> None:
    stairs = [(11, 0.06 * step) for step in range(1, 9)]
    values = levels((300, 0), *stairs, (300, 0.55), seed=seed)
    expected = {300 + 11 * step for step in range(9)}
    hits = [min(abs(place - other) for other in expected) <= 2 for place in found(values)]
    assert all(hits)
    assert len(hits) >= len(expected) - 1


def test_less_is_needed_where_a_series_surely_changes_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight runs 2.5σ off, before a dozen large steps."""
    steps = [(100, 0.0), (8, 0.025), (100, 0.0), *((40, 0.2 * (step % 2)) for step in range(13))]
    series = [levels(*steps, seed=seed) for seed in range(40)]

    def hits() -> int:
        return sum(any(abs(place - 100) <= 2 for place in found(row)) for row in series)

    as_it_is = hits()
    monkeypatch.setattr(segmentation, "SURE", np.inf)
    assert as_it_is > hits() > 0


@pytest.mark.parametrize("seed", range(5))
def test_a_large_step_stays_whatever_is_dropped_beside_it(seed: int) -> None:
    """An 18% step that stays for 330 runs, with bursts of outliers and small wandering on either side of it."""
    values = levels((80, 0), (9, 0.02), (30, 0), (11, -0.02), (20, 0), (330, 0.165), seed=seed)
    values[[121, 122, 123, 124, 160, 161, 162]] += 0.4
    assert min(abs(place - 150) for place in found(values)) <= 2


@pytest.mark.parametrize("seed", range(5))
def test_a_change_of_a_series_that_flickers_is_found(seed: int) -> None:
    rng = np.random.default_rng(seed)
    values = 0.01 * rng.normal(size=500) + 0.08 * (rng.random(500) < 0.3) + 0.12 * (np.arange(500) >= 300)
    assert near(found(values), [300])


@pytest.mark.parametrize("modes", [2, 3, 4])
def test_flicker_alone_is_no_change(modes: int) -> None:
    rng = np.random.default_rng(modes)
    values = 0.01 * rng.normal(size=(200, 400)) + 0.08 * rng.integers(modes, size=(200, 400))
    assert sum(row.size > 0 for row in change_points(values)) <= 1


@pytest.mark.parametrize("width", [2, 3, 4])
def test_a_burst_of_fewer_outliers_than_a_level_has_runs_is_none(width: int) -> None:
    values = levels((200, 0), (width, 0.5), (150, 0))
    assert found(values) == []


def test_noise_that_remembers_makes_few_changes_in_long_series() -> None:
    rng = np.random.default_rng(3)
    noise = rng.normal(size=(300, 550))
    for run in range(1, 550):
        noise[:, run] += 0.4 * noise[:, run - 1]
    assert sum(row.size > 0 for row in change_points(0.01 * noise[:, 50:], 1e-9)) <= 9


def test_no_step_is_listed_that_hides_in_the_noise() -> None:
    """What is smaller than half of the range of the noise's middle 80%, 1.3σ, is none, though some looks clear."""
    series = [levels((100, 0), (100, 0.012), seed=seed) for seed in range(60)]
    sizes = [
        abs(np.median(values[place : place + 30]) - np.median(values[place - 30 : place]))
        for values in series
        for place in found(values)
    ]
    assert len(sizes) > 10
    assert min(sizes) > 0.011


def test_series_that_are_looked_at_together_have_the_changes_that_each_has_alone() -> None:
    """Of many lengths, with ties, with levels that come and go next to each other, and with none."""
    rng = np.random.default_rng(8)
    rows = []
    for number in range(90):
        lengths = rng.integers(5, 60, size=rng.integers(1, 12))
        row = levels(*((length, rng.normal(scale=0.05)) for length in lengths), seed=number)
        rows.append(np.round(row, 2) if number % 3 else row)
    together = np.full((len(rows), max(map(len, rows))), np.nan)
    for line, row in zip(together, rows, strict=True):
        line[: row.size] = row
    alone = [found(row) for row in rows]
    assert [places.tolist() for places in change_points(together)] == alone
    assert sum(map(len, alone)) > 100


def test_changes_are_placed_one_after_the_other_though_they_are_looked_at_together() -> None:
    series = [levels(*((12, level % 3) for level in range(20)), sigma=0.5, seed=seed) for seed in range(20)]
    second = LocalEvidence([NoisySeries(row, row, 1.0) for row in series], 0.01)
    edges = [list(range(240 * number, 240 * number + 241, 8)) for number in range(20)]
    expected = [list(row) for row in edges]
    for row in expected:
        for i in range(1, len(row) - 1):
            row[i] = second.best_places([window_of(row[i - 1], row[i], row[i + 1])])[0]
    EvidenceCache(second).place(edges)
    assert edges == expected
