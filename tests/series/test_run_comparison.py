"""Two runs of made series, compared by the noise of their past."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

import numpy as np
import pytest
from made_points import MACHINE, noisy, point, row, series
from numpy.random import Generator, default_rng

from torchperf_ci.series.past_values import past_of_points
from torchperf_ci.series.run_comparison import SeriesComparison, compare_runs, mean_ratios

if TYPE_CHECKING:
    from collections.abc import Callable

    from torchperf_ci.series.points import Point
    from torchperf_ci.stats import Floats

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


@pytest.mark.parametrize("runs", [6, 12, 40])
@pytest.mark.parametrize("draw", [Generator.standard_normal, lambda random, size: random.standard_t(4, size)])
def test_chance_is_beyond_noise_in_one_of_twenty_comparisons(draw: Callable[..., Floats], runs: int) -> None:
    """Few runs say little about the noise, and benchmarks have heavier tails than the normal distribution."""
    random, names = default_rng(1), [series(model=str(number)) for number in range(100)]
    found = []
    for _ in range(20):
        values = 10 * np.exp(0.01 * draw(random, (len(names), runs + 1)))
        past = {name: past_of_points(row(of_one[:-1])) for name, of_one in zip(names, values, strict=True)}
        old, new = (
            {name: point(value, at) for name, value in zip(names, values[:, at], strict=True)}
            for at in (runs - 1, runs)
        )
        found.append(compare_runs(old, new, past, {}))
    assert sum(any(one.word == "beyond noise" for one in some) for some in found) <= 2
    effects = [one.effect for some in found for one in some]
    assert np.mean([effect.low < 1 < effect.high for effect in effects if effect]) > 0.94


@pytest.mark.parametrize(
    ("among", "runs", "word"),
    [
        (1, 40, "beyond noise"),
        (20, 40, "beyond noise"),
        (20, 10, "within noise"),
        (1000, 40, "within noise"),
    ],
)
def test_more_series_take_a_larger_change_and_a_longer_past_a_smaller_one(
    among: int, runs: int, word: str
) -> None:
    assert compared(10.65, among=among, runs=runs).word == word


def test_what_one_metric_does_now_and_then_hides_no_change_of_another() -> None:
    latencies, times = (
        [series(metric, model=str(number)) for number in range(50)]
        for metric in ("latency(ms)", "compile_time(s)")
    )
    names = [*latencies, *times]
    values = 10 * np.exp(0.01 * default_rng(1).standard_normal((len(names), 42)))
    values[50:52, 20] *= 100
    past = {name: past_of_points(row(of_one[:-1])) for name, of_one in zip(names, values, strict=True)}
    old, new = ({name: point(values[place, at], at) for place, name in enumerate(names)} for at in (40, 41))
    slower = {latencies[0]: point(20.0, 41), times[0]: point(20.0, 41)}
    found = {one.series: one.word for one in compare_runs(old, new | slower, past, {})}
    assert [one for one in names if found[one] == "beyond noise"] == latencies[:1]


def test_faster_is_not_worse_and_what_nobody_knows_is_neither() -> None:
    assert compared(8.0).worse == -1
    assert compared(8.0, "throughput(samples/s)").worse == 1
    assert (compared(8.0, "colour").word, compared(8.0, "colour").worse) == ("beyond noise", 0)


def test_any_other_count_is_beyond_noise() -> None:
    for new, worse in ((3.0, 1), (1.0, -1)):
        found = compared(new, "graph_breaks", level=2.0)
        assert (found.word, found.worse) == ("beyond noise", worse)
    assert compared(2.0, "graph_breaks", level=2.0).word == "within noise"
    assert compared(3.0, "graph_breaks", level=2.0).effect is None


@pytest.mark.parametrize(
    ("new", "word"),
    [(0.6, "within noise"), (-0.8, "within noise"), (1.3, "beyond noise"), (-1.3, "beyond noise")],
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
        (point(None, RUNS, info={"status": "oom", "reason": "64 GiB wanted"}), "new: oom: 64 GiB wanted"),
    ],
)
def test_what_cannot_be_compared_says_why(new: Point | None, why: str) -> None:
    found = compared(new)
    assert (found.word, found.effect, found.why) == ("not comparable", None, why)


@pytest.mark.parametrize(
    ("status", "why"),
    [
        (point(0.0, RUNS, info={"status": "oom", "reason": "64 GiB wanted"}), "oom: 64 GiB wanted"),
        (point(0.0, RUNS, info={"status": "unsupported"}), "unsupported"),
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


@pytest.mark.parametrize(
    ("word", "found"), [("unsupported", ("not comparable", None, 0)), ("oom", ("beyond noise", 0.0, 1))]
)
def test_what_is_not_supported_is_no_failure(word: str, found: tuple[str, float | None, int]) -> None:
    """Both are recorded as 0."""
    name = series("status")
    (one,) = compare_runs({name: point(1.0, 0)}, {name: point(0.0, 1, info={"status": word})}, {}, {})
    assert (one.word, one.new, one.worse) == found
    assert one.why == ("new: unsupported" if word == "unsupported" else "")


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


@pytest.mark.parametrize(("old", "new", "worse"), [(0.9, 0.0, 1), (0.0, 0.9, -1)])
def test_an_accuracy_that_falls_to_zero_is_worse(old: float, new: float, worse: int) -> None:
    name = series("accuracy")
    known = past_of_points([point(0.9, run) for run in range(RUNS)])
    runs = [{name: point(value, RUNS + run)} for run, value in enumerate((old, new))]
    for past in ({}, {name: known}):
        (found,) = compare_runs(*runs, past, {})
        assert (found.word, found.worse, found.effect) == ("beyond noise", worse, None)


def test_a_failure_that_comes_before_its_facts_are_known_is_compared() -> None:
    status, known = series("status"), {**MACHINE, "batch_size": "8", "workload_config": "1a"}
    runs = [{status: point(1.0, 0, fingerprint=known)}, {status: point(0.0, 1)}]
    found = [compare_runs(*both, {}, {})[0] for both in (runs, runs[::-1])]
    assert [(one.word, one.worse) for one in found] == [("beyond noise", 1), ("beyond noise", -1)]


def test_zero_has_no_ratio_however_long_the_past_is() -> None:
    found = compared(0.0)
    assert (found.word, found.why) == ("not comparable", "values of zero and below have no ratio")
    small = compared(0.0005, level=0.0004)
    assert small.effect
    assert small.effect.ratio == pytest.approx(1.25)


def test_the_most_relevant_comes_first_and_means_are_over_what_both_have() -> None:
    names = [series(model=model) for model in "abcde"]
    past = dict.fromkeys(names, past_of_points(row(noisy(10, RUNS))))
    old = {name: point(10.0, RUNS - 1) for name in names}
    new = {name: point(value, RUNS) for name, value in zip(names, (10.0, 8.0, 12.5, 15.0), strict=False)}
    found = compare_runs(old, new, past, {})
    assert [one.series.model for one in found] == ["d", "c", "b", "e", "a"]
    (mean,) = mean_ratios(found)
    assert (mean.metric, mean.ratio, mean.n) == ("latency(ms)", pytest.approx(1.5 ** (1 / 4)), 4)


def test_nothing_compares_to_nothing() -> None:
    assert compare_runs({}, {}, {}, {}) == []
    assert mean_ratios([]) == []
