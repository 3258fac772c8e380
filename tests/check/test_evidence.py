"""The evidence of a verdict: the points of its chart, the commits around the change, the machine and the batch size."""

from __future__ import annotations

import re

import pytest
from made_points import DAY, MACHINE, START, noisy, point, row, series
from made_verdicts import LATENCY, OTHER, judged, one

from torchperf_ci.verdicts.verdict import MeasuredPoint


@pytest.mark.parametrize("metric", ["latency(ms)", "memory_leak(KiB/iter)", "graph_breaks"])
def test_the_evidence_of_what_got_worse_has_the_points_of_a_chart(metric: str) -> None:
    past = [4.0] * 50
    verdict = one(past, [40.0, 41.0, 40.0], metric)
    assert verdict.verdict == "regressed"
    points = verdict.evidence.points
    assert [point.value for point in points] == [*past[:37], 40.0, 41.0, 40.0]
    assert points[-3] == MeasuredPoint(40.0, f"{50:040d}", START + 50 * DAY)


def test_a_candidate_has_points_and_what_is_not_worse_has_none() -> None:
    assert [point.value for point in one(noisy(10, 30), [11.0]).evidence.points][-1] == 11.0
    for factor in (1.0, 0.9):
        assert not one(noisy(10, 30), [10.0 * factor] * 3).evidence.points


def test_of_many_new_points_the_chart_leaves_room_for_the_old_level() -> None:
    points = one([10.0] * 50, [12.0] * 60).evidence.points
    assert [point.value for point in points] == [10.0] * 20 + [12.0] * 20


def test_the_points_name_the_commit_of_pytorch_where_they_know_no_other() -> None:
    new = [point(12.0, 30 + day, commit="", info={"torch": "f" * 40}) for day in range(3)]
    found = judged({LATENCY: row(noisy(10, 30))}, {LATENCY: new})
    assert [one.commit for one in found["latency(ms)"].evidence.points][-4:] == [
        f"{29:040d}",
        *["f" * 40] * 3,
    ]


@pytest.mark.parametrize("metric", ["latency(ms)", "graph_breaks"])
def test_the_evidence_tells_machines_apart_whose_numbers_cannot_be_compared(metric: str) -> None:
    name = series(metric)
    past = [*row([3.0] * 30), *row([3.0] * 30, 30, fingerprint=OTHER)]
    nights = [row([3.0], 60), row([4.0], 61), row([3.0], 62, fingerprint=OTHER)]
    here, again, elsewhere = (judged({name: past}, {name: new})[metric].evidence.machine for new in nights)
    assert here == again != elsewhere
    assert re.fullmatch("[0-9a-f]{10}", here)


@pytest.mark.parametrize(
    ("fact", "member"),
    [("batch_size", "batch_size"), ("threads", "threads"), ("torch_threads", "threads")],
)
@pytest.mark.parametrize("metric", ["latency(ms)", "graph_breaks"])
@pytest.mark.parametrize(
    ("recorded", "number"), [("512", 512), ("auto", None), ("9" * 5000, None), (None, None)]
)
def test_the_evidence_has_the_batch_size_and_the_threads_with_which_a_bisection_measures(
    metric: str, fact: str, member: str, recorded: str | None, number: int | None
) -> None:
    """A bisection with the workload's own may measure nothing that got worse."""
    facts, name = {**MACHINE, **({fact: recorded} if recorded else {})}, series(metric)
    old, new = row([2.0] * 20, fingerprint=facts), row([4.0] * 3, 20, fingerprint=facts)
    verdict = judged({name: old}, {name: new})[metric]
    assert (verdict.verdict, getattr(verdict.evidence, member)) == ("regressed", number)


def test_of_runs_with_several_points_the_evidence_names_the_runs_around_the_change() -> None:
    past = [point(value, day, job_id=job) for day, value in enumerate(noisy(10, 30)) for job in range(2)]
    now = [point(12.0 + job / 100, 30 + day, job_id=job) for day in range(3) for job in range(2)]
    verdict = judged({LATENCY: past}, {LATENCY: now})["latency(ms)"]
    assert (verdict.verdict, verdict.evidence.others["window"], verdict.evidence.others["runs"]) == (
        "regressed",
        3,
        3,
    )
    assert verdict.evidence.commits.last_old.commit == f"{29:040d}"
    assert verdict.evidence.commits.first_new.commit == f"{30:040d}"
