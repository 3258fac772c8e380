"""The changes found in each kind of series, and how they are described."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from made_points import MACHINE, noisy, point, row, series

from torchperf_ci.config import default_policy
from torchperf_ci.series.level_changes import ratio_steps
from torchperf_ci.series.policy import rule_of_metric, rule_of_points
from torchperf_ci.series.segmenting import segment_all

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torchperf_ci.series.level_changes import SeriesHistory
    from torchperf_ci.series.points import Point

OTHER = {"driver": "560", "governor": "performance"}


def past(points: Sequence[Point], metric: str = "latency(ms)") -> SeriesHistory:
    (only,) = segment_all({series(metric): points}, lambda *_: rule_of_metric(metric, default_policy()))
    return only


def steps(*levels: tuple[float, int]) -> list[float]:
    """Noisy values at one level after the other, each for so many runs."""
    return [value for seed, (level, runs) in enumerate(levels) for value in noisy(level, runs, seed=seed)]


@pytest.mark.parametrize(
    ("metric", "new", "word"),
    [
        ("latency(ms)", 11, "regressed"),
        ("latency(ms)", 9, "improved"),
        ("throughput(samples/s)", 9, "regressed"),
        ("throughput(samples/s)", 11, "improved"),
        ("colourfulness", 11, "changed"),
    ],
)
def test_a_change_has_the_word_of_its_metric(metric: str, new: float, word: str) -> None:
    found = past(row(steps((10, 30), (new, 30))), metric)
    assert found.n == 60
    (change,) = found.changes
    assert (change.index, change.word, change.first.commit) == (30, word, f"{30:040d}")
    assert change.last.commit == f"{29:040d}"
    assert (change.old, change.new) == pytest.approx((10, new), rel=0.01)
    assert change.effect
    assert change.effect.low < new / 10 < change.effect.high


@pytest.mark.parametrize("memory", [0.0, 0.4])
def test_the_interval_holds_the_step_also_where_noise_remembers(memory: float) -> None:
    noise = np.random.default_rng(2).normal(scale=0.01, size=(80, 400))
    for run in range(1, len(noise)):
        noise[run] += memory * noise[run - 1]
    rows = np.exp(noise[20:].T + 0.05 * (np.arange(60) >= 30))
    effects = [step.effect for found in ratio_steps(rows.tolist()) for step in found if step.place == 30]
    assert len(effects) > 300
    assert np.mean([it.low < np.exp(0.05) < it.high for it in effects if it]) > 0.9


@pytest.mark.parametrize(
    ("torch", "expected"),
    [
        (("a" * 40, "b" * 40), ("a" * 40, "b" * 40)),
        (("a" * 40, "a" * 40), (f"{29:040d}", f"{30:040d}")),
        (("", "b" * 40), (f"{29:040d}", f"{30:040d}")),
    ],
)
def test_the_commits_of_a_change_are_those_of_pytorch_if_it_is_another(
    torch: tuple[str, str], expected: tuple[str, str]
) -> None:
    values = steps((10, 30), (11, 30))
    old, new = ({"torch": commit} if commit else {} for commit in torch)
    (change,) = past(row(values[:30], info=old) + row(values[30:], 30, info=new)).changes
    assert change.commits == expected


def test_runs_without_a_number_count_as_points_and_change_nothing() -> None:
    values: list[float | None] = list(steps((10, 30), (11, 30)))
    values[3] = values[29] = values[30] = None
    (change,) = past(row(values)).changes
    assert (change.index, change.last.commit, change.first.commit) == (31, f"{28:040d}", f"{31:040d}")


def test_zeros_of_a_ratio_are_no_measurements() -> None:
    values = steps((10, 40))
    values[20:27] = [0.0] * 7
    assert not past(row(values)).changes


def test_a_regression_that_was_undone_is_recovered() -> None:
    first, second = past(row(steps((10, 30), (12, 30), (10.1, 30)))).changes
    assert (first.word, second.word) == ("regressed", "improved")
    assert first.recovered is second.first
    assert second.recovered is None


@pytest.mark.parametrize(
    ("metric", "levels"),
    [
        ("latency(ms)", (10, 12, 14)),
        ("latency(ms)", (10, 14, 13)),
        ("latency(ms)", (10, 9, 8)),
        ("throughput(samples/s)", (14, 10, 11)),
    ],
)
def test_a_regression_that_is_still_there_is_not(metric: str, levels: tuple[float, ...]) -> None:
    changes = past(row(steps(*((level, 30) for level in levels))), metric).changes
    assert len(changes) == 2
    assert not any(change.recovered for change in changes)


def test_a_new_machine_is_a_boundary_and_no_regression() -> None:
    values = steps((10, 30), (15, 30))
    found = past(row(values[:30]) + row(values[30:], 30, fingerprint=OTHER))
    assert not found.changes
    (machine,) = found.machines
    assert (machine.index, machine.first.commit) == (30, f"{30:040d}")
    assert machine.differs == ["driver: 550 → 560"]


def test_a_change_on_the_new_machine_is_found_at_its_place() -> None:
    values = steps((10, 20), (15, 25), (16.5, 25))
    found = past(row(values[:20]) + row(values[20:], 20, fingerprint=OTHER))
    assert [(change.index, change.word) for change in found.changes] == [(45, "regressed")]


def test_machines_that_take_turns_are_no_boundary_and_each_is_seen() -> None:
    fast, slow = steps((10, 30), (11, 30)), steps((20, 30), (22, 30))
    points = [
        point(value, 2 * day + turn, fingerprint=facts)
        for day, values in enumerate(zip(fast, slow, strict=True))
        for turn, (value, facts) in enumerate(zip(values, (MACHINE, OTHER), strict=True))
    ]
    found = past(points)
    assert not found.machines
    assert [(change.index, change.word) for change in found.changes] == [(60, "regressed"), (61, "regressed")]


def test_an_outcome_changes_where_it_stays() -> None:
    words = ["pass"] * 10 + ["oom"] + ["pass"] * 9 + ["timeout"] * 6 + ["pass"] * 5
    points = [point(float(word == "pass"), day, info={"status": word}) for day, word in enumerate(words)]
    broken, fixed = past(points, "status").changes
    assert (broken.index, broken.word, broken.first.info["status"]) == (20, "regressed", "timeout")
    assert (fixed.index, fixed.word, broken.recovered) == (26, "improved", fixed.first)
    assert broken.effect is None


def test_failures_that_come_before_their_facts_are_known_are_of_the_same_machine() -> None:
    known = {**MACHINE, "workload_config": "1a"}
    points = [
        point(value, day, fingerprint=known if value else MACHINE)
        for day, value in enumerate([1.0] * 3 + [0.0] * 2 + [1.0] * 2)
    ]
    found = past(points, "status")
    assert [(change.index, change.word) for change in found.changes] == [(3, "regressed"), (5, "improved")]
    assert found.changes[0].recovered == points[5]
    assert not found.machines


def test_what_is_not_supported_has_no_outcome() -> None:
    words = ["pass"] * 10 + ["unsupported"] * 10
    points = [point(float(word == "pass"), day, info={"status": word}) for day, word in enumerate(words)]
    assert not past(points, "status").changes


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([0] * 8 + [2] * 5, [(8, "regressed", 0, 2)]),
        ([0] * 8 + [2], []),
        ([3] * 8 + [9] + [3] * 8, []),
        ([3] * 8 + [5] * 4 + [1] * 4, [(8, "regressed", 3, 5), (12, "improved", 5, 1)]),
        ([3] * 8 + [4, 5, 4, 5] + [6] * 3, [(12, "regressed", 3, 6)]),
    ],
)
def test_a_count_changes_where_another_value_stays(
    values: list[int], expected: list[tuple[int, str, int, int]]
) -> None:
    changes = past(row([float(value) for value in values]), "graph_breaks").changes
    assert [(one.index, one.word, one.old, one.new) for one in changes] == expected


def test_a_count_has_an_exact_ratio_unless_it_was_zero() -> None:
    (from_two,) = past(row([2.0] * 5 + [3.0] * 5), "graph_breaks").changes
    (from_zero,) = past(row([0.0] * 5 + [3.0] * 5), "graph_breaks").changes
    assert from_two.effect
    assert (from_two.effect.low, from_two.effect.ratio, from_two.effect.high) == (1.5, 1.5, 1.5)
    assert from_zero.effect is None


def test_an_amount_changes_by_its_difference() -> None:
    leak = "memory_leak(KiB/iter)"
    around_zero = [value - 10 for value in steps((10, 60))]
    assert not past(row(around_zero), leak).changes
    (change,) = past(row([*around_zero[:30], *(value + 4 for value in around_zero[30:])]), leak).changes
    assert (change.index, change.word, change.effect) == (30, "regressed", None)
    assert change.new - change.old == pytest.approx(4, abs=0.1)


def test_an_amount_of_an_unknown_unit_changes_by_what_is_large_for_it() -> None:
    points = {
        series("errors", model): row([0.0] * 30 + [0.5] * runs) for model, runs in (("a", 20), ("b", 4))
    }
    changed, newest = segment_all(points, lambda name, some: rule_of_points(name.metric, some, {}))
    assert [change.index for change in changed.changes] == [30]
    assert newest.newest
    assert newest.newest.runs == 4
    (alone,) = segment_all({"b": row([0.0] * 30 + [0.5] * 4)}, lambda *_: newest.rule, with_newest=False)
    assert alone.newest is None


@pytest.mark.parametrize("metric", ["accuracy", "pass_rate"])
def test_an_accuracy_that_falls_to_zero_has_changed(metric: str) -> None:
    accuracies = [0.9, 0.91] * 15
    points = {
        series(metric, model): row([*accuracies, *new]) for model, new in (("a", [0.0] * 20), ("b", [0.0]))
    }
    changed, spike = segment_all(points, lambda name, some: rule_of_points(name.metric, some, {}))
    (change,) = changed.changes
    assert (change.index, change.word, change.new, change.effect) == (30, "regressed", 0, None)
    assert not spike.changes


def test_a_large_amount_changes_by_a_share_of_it() -> None:
    around = [10_000 + value for value in steps((10, 60))]
    leak = "memory_leak(KiB/iter)"
    assert not past(row([*around[:30], *(value + 50 for value in around[30:])]), leak).changes
    assert past(row([*around[:30], *(value + 200 for value in around[30:])]), leak).changes


def test_each_series_is_judged_alone_whatever_its_length() -> None:
    names = [series(model=f"model{number}") for number in range(40)]
    points = {
        name: row(steps((10, 10 + number), (11, 15))) if number % 2 else row(steps((10, 20 + number)))
        for number, name in enumerate(names)
    }
    found = segment_all(points, lambda name, _: rule_of_metric(name.metric, default_policy()))
    assert [past.name for past in found] == names
    for number, one in enumerate(found):
        assert [change.index for change in one.changes] == ([10 + number] if number % 2 else [])


def test_a_series_without_points_has_no_changes() -> None:
    (found,) = segment_all({series(): []}, lambda *_: rule_of_metric("latency(ms)", {}))
    assert (found.n, list(found.changes), list(found.machines)) == (0, [], [])


def test_the_points_of_one_run_are_one_value() -> None:
    points = [*row([1.0] * 12), *(point(1.06, 12, job_id=job) for job in range(6))]
    assert not past(points).changes


def test_a_change_lies_between_runs_whatever_points_they_have() -> None:
    values = steps((10, 20), (11, 20))
    points = [point(value, day, job_id=job) for day, value in enumerate(values) for job in range(3)]
    found = past(points)
    (change,) = found.changes
    assert (found.n, change.index) == (120, 60)
    assert (change.last.commit, change.first.commit) == (f"{19:040d}", f"{20:040d}")


@pytest.mark.parametrize("jobs", [2, 3])
def test_a_run_in_which_one_of_several_failed_stands_for_its_outcome(jobs: int) -> None:
    words = [*[("pass",) * jobs] * 5, *[("oom", *("pass",) * (jobs - 1))] * 3]
    points = [
        point(float(word == "pass"), day, job_id=job, info={"status": word})
        for day, several in enumerate(words)
        for job, word in enumerate(several)
    ]
    (change,) = past(points, "status").changes
    assert (change.index, change.first.info["status"], change.last.info["status"]) == (
        5 * jobs,
        "oom",
        "pass",
    )


@pytest.mark.parametrize(
    ("values", "told"), [([3] * 8 + [4], True), ([3] * 8, False), ([3] * 8 + [4] * 2, False)]
)
def test_one_run_with_another_count_is_said_though_it_is_no_change(values: list[int], told: bool) -> None:
    found = past(row([float(value) for value in values]), "graph_breaks")
    assert (found.newest is not None) == told
    assert bool(found.changes) == (values[-2:] == [4, 4])


@pytest.mark.parametrize(("runs", "told"), [(2, False), (3, True), (20, False)])
def test_newest_amounts_that_differ_are_said_until_they_are_a_level(runs: int, told: bool) -> None:
    leak = np.random.default_rng(0).normal(0.0, 0.1, 40 + runs)
    leak[40:] += 900.0
    found = past(row(leak.tolist()), "memory_leak(KiB/iter)")
    assert (found.newest is not None, bool(found.changes)) == (told, runs == 20)
    assert not found.newest or (found.newest.runs, found.newest.level, found.newest.effect) == (runs, 5, None)


def test_the_newest_runs_of_a_machine_that_is_gone_are_nobodys_news() -> None:
    old = [*steps((10, 60)), 15.0, 15.1, 14.9]
    assert past(row(old)).newest
    assert not past(row(old) + row(steps((10, 20)), 63, fingerprint=OTHER)).newest


@pytest.mark.parametrize("nights", range(3, 16))
def test_newest_runs_are_news_only_until_they_are_a_level(nights: int) -> None:
    found = past(row(steps((10, 40), (10.8, nights))))
    assert len(found.changes) + (found.newest is not None) == 1
