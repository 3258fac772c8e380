"""Two runs of made series, compared by the noise of their past."""

from __future__ import annotations

from math import inf, log, sqrt
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np
import pytest
from made_points import noisy, point, row, series

from torchperf_ci.series.past_values import past_of_points
from torchperf_ci.series.run_comparison import SeriesComparison, compare_runs, mean_ratios
from torchperf_ci.stats.noise import robust_sigma

if TYPE_CHECKING:
    from torchperf_ci.series.points import Point

RUNS = 30
OTHER = {"driver": "560", "governor": "performance"}


def compared(
    new: float | Point | None,
    metric: str = "latency(ms)",
    among: int = 1,
    runs: int = RUNS,
    level: float = 10.0,
) -> SeriesComparison:
    """A series whose past is at a level, among others that do not change."""
    name = series(metric)
    names = [name, *(series(model=f"other{number}") for number in range(among - 1))]
    past = row(noisy(level, runs) if level == 10 else [level] * runs)
    now = point(new, runs) if isinstance(new, float) else new
    found = compare_runs(
        {one: point(level, runs - 1) for one in names},
        {one: point(level, runs) for one in names[1:]} | ({name: now} if now else {}),
        dict.fromkeys(names, past_of_points(past)),
        {},
    )
    assert len(found) == among
    return next(one for one in found if one.series == name)


@pytest.mark.parametrize("among", [1, 100])
def test_a_ratio_is_beyond_noise_where_chance_makes_it_in_one_of_twenty_comparisons(among: int) -> None:
    """The difference of two runs varies by √2 σ, and Bonferroni divides the tails among all series."""
    (sigma,) = robust_sigma(np.log([noisy(10, RUNS)]))
    edge = NormalDist().inv_cdf(1 - 0.025 / among) * sqrt(2) * sigma
    below, above = (compared(float(10 * np.exp(edge * share)), among=among) for share in (0.99, 1.01))
    assert (below.word, below.worse) == ("within noise", 0)
    assert (above.word, above.worse) == ("beyond noise", 1)
    assert above.effect
    half = 1.959964 * sqrt(2) * sigma
    assert log(above.effect.ratio / above.effect.low) == pytest.approx(half, rel=1e-3)
    assert log(above.effect.high / above.effect.ratio) == pytest.approx(half, rel=1e-3)


def test_faster_is_not_worse_and_what_nobody_knows_is_neither() -> None:
    assert compared(8.0).worse == -1
    assert compared(8.0, "throughput(samples/s)").worse == 1
    assert (compared(8.0, "colour").word, compared(8.0, "colour").worse) == ("beyond noise", 0)


def test_any_other_count_is_beyond_noise() -> None:
    assert compared(3.0, "graph_breaks", level=2.0).word == "beyond noise"
    assert compared(2.0, "graph_breaks", level=2.0).word == "within noise"
    assert compared(3.0, "graph_breaks", level=2.0).effect is None


@pytest.mark.parametrize(
    ("new", "word"), [(0.6, "within noise"), (-0.9, "within noise"), (1.3, "beyond noise")]
)
def test_an_amount_is_beyond_noise_where_the_difference_matters(new: float, word: str) -> None:
    """A leak of a fraction of a KiB per iteration is none."""
    assert compared(new, "memory_leak(KiB/iter)", level=0.1).word == word


def test_too_short_a_past_leaves_the_noise_unknown_and_the_interval_open() -> None:
    found = compared(11.0, runs=4)
    assert (found.word, "fewer than 5 runs" in found.why) == ("noise unknown", True)
    assert found.effect
    assert (found.effect.ratio, found.effect.low, found.effect.high) == (pytest.approx(1.1), 0.0, inf)


@pytest.mark.parametrize(
    ("new", "why"),
    [
        (None, "not in the new run"),
        (point(10.0, RUNS, fingerprint=OTHER), "driver: 550 → 560"),
        (point(None, RUNS, info={"status": "unsupported", "reason": "no GPU"}), "new: unsupported: no GPU"),
    ],
)
def test_what_cannot_be_compared_says_why(new: Point | None, why: str) -> None:
    found = compared(new)
    assert (found.word, found.effect, found.why) == ("not comparable", None, why)


@pytest.mark.parametrize(
    ("status", "why"),
    [
        (point(0.0, RUNS, info={"status": "oom", "reason": "64 GiB wanted"}), "oom: 64 GiB wanted"),
        (point(None, RUNS, info={"status": "unsupported"}), "unsupported"),
        (point(1.0, RUNS, info={"not_measured": '{"latency(ms)": "too short"}'}), "too short"),
    ],
)
def test_what_a_run_does_not_have_is_told_by_its_status(status: Point, why: str) -> None:
    latency, its_status = series(), series("status")
    found = {
        one.series: one
        for one in compare_runs(
            {latency: point(10.0, RUNS - 1), its_status: point(1.0, RUNS - 1)}, {its_status: status}, {}, {}
        )
    }
    assert (found[latency].word, found[latency].why) == ("not comparable", f"new: {why}")
    assert (found[latency].old, found[latency].new) == (10.0, None)


def outcome(word: str) -> Point:
    return point(None, RUNS, info={"benchmark_values": f'["{word}"]'})


@pytest.mark.parametrize(
    ("old", "new", "word", "worse"),
    [
        ("pass", "fail_accuracy", "beyond noise", 1),
        ("fail_accuracy", "pass", "beyond noise", -1),
        ("fail_accuracy", "eager_fail", "beyond noise", 0),
        ("pass", "pass", "within noise", 0),
    ],
)
def test_outcomes_that_are_words_differ_without_a_number(old: str, new: str, word: str, worse: int) -> None:
    name = series("accuracy")
    (found,) = compare_runs({name: outcome(old)}, {name: outcome(new)}, {}, {})
    assert (found.word, found.worse) == (word, worse)
    assert (found.old, found.new) == (float(old == "pass"), float(new == "pass"))
    assert found.why == ("" if old == new else f"{old} → {new}")


def test_zero_has_no_ratio_however_long_the_past_is() -> None:
    found = compared(0.0)
    assert (found.word, found.why) == ("not comparable", "values of zero and below have no ratio")


def test_the_most_relevant_comes_first_and_means_are_over_what_both_have() -> None:
    names = [series(model=model) for model in "abcd"]
    past = dict.fromkeys(names, past_of_points(row(noisy(10, RUNS))))
    old = {name: point(10.0, RUNS - 1) for name in names}
    new = {name: point(value, RUNS) for name, value in zip(names, (10.0, 8.0, 12.5), strict=False)}
    found = compare_runs(old, new, past, {})
    assert [one.series.model for one in found] == ["c", "b", "d", "a"]
    (mean,) = mean_ratios(found)
    assert (mean.metric, mean.ratio, mean.n) == ("latency(ms)", pytest.approx(1.0), 3)


def test_nothing_compares_to_nothing() -> None:
    assert compare_runs({}, {}, {}, {}) == []
    assert mean_ratios([]) == []
