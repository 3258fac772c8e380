"""Which series of the past were not measured now, although their group was, and why."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

from torchperf_ci.check.pairing import commits_around
from torchperf_ci.metrics import ANCHORED, STATUS
from torchperf_ci.series.outcomes import why_absent
from torchperf_ci.series.points import RECENT_RUNS, machine_facts, runs_of, runs_of_groups
from torchperf_ci.verdicts.verdict import Evidence, Verdict

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from torchperf_ci.series.points import Point, Points, Series, SeriesGroup


def lost_series(old: Points, new: Points, explained: Mapping[Series, str]) -> list[Verdict]:
    """Return verdicts on series of the past whose group was measured now but which have no new point.

    ``explained`` says what is wrong with a case, by case. A series is not lost if a machine that takes turns with its
    own has measured it instead: the shards of a run may get a different machine each time.
    """
    measured = {series.group for series in new}
    past = {series: row for series, row in old.items() if series.group in measured}
    return [
        missing_verdict(series, explained.get(series.case) or _why_missing(series, new), past[series])
        for series in _lost(past, new, _recent_runs(past, new), old)
    ]


def absent_machines(old: Points, new: Points) -> list[str]:
    """Return a note on each machine that measured in all of the last runs of those that measured now, but not now.

    Only if the new runs are of a branch of the past: a pull request may be measured on fewer machines.
    """
    measured = {series.group for series in new}
    branches = {point.branch for row in old.values() for point in row}
    here = runs_of(point for series, row in old.items() if series.group in measured for point in row)
    newest = set(here[-RECENT_RUNS:])
    is_of_past = branches.issuperset(point.branch for row in new.values() for point in row)
    if len(newest) < RECENT_RUNS or not is_of_past:
        return []
    always = {group for group, runs in runs_of_groups(old).items() if newest.issubset(runs)} - measured
    past = {series: row for series, row in old.items() if series.group in always}
    lost = _lost(past, new, dict.fromkeys(always, newest), old)
    machines = dict.fromkeys(series.group.machine for series in lost)
    return [f"{one}: nothing was measured, but in each of the last {RECENT_RUNS} runs" for one in machines]


def _lost(
    past: Points, new: Points, recent: Mapping[SeriesGroup, Collection[str]], old: Points
) -> Iterator[Series]:
    """Yield the series of ``past`` that are in a ``recent`` run but not measured now, nor by a machine in turns."""
    elsewhere: dict[Series, list[Series]] = defaultdict(list)
    for series in new:
        elsewhere[replace(series, arch="")].append(series)
    for series, row in past.items():
        was_there = series not in new and any(point.run in recent[series.group] for point in row)
        others = elsewhere[replace(series, arch="")] if was_there else ()
        if was_there and not any(_take_turns(row, old.get(other, ())) for other in others):
            yield series


def _recent_runs(past: Points, new: Points) -> dict[SeriesGroup, set[str]]:
    """Return the last runs of each group on the machines that measure it now; on all machines if these are new to it.

    An anchored series does not tell its machine.
    """
    old, now = (
        {series: row for series, row in points.items() if series.metric != ANCHORED} for points in (past, new)
    )
    facts = {
        id(point.fingerprint): point.fingerprint for row in (*old.values(), *now.values()) for point in row
    }
    machine = {key: frozenset(machine_facts(known).items()) for key, known in facts.items()}
    here = {(series.group, machine[id(point.fingerprint)]) for series, row in now.items() for point in row}
    own = {
        series: [point for point in row if (series.group, machine[id(point.fingerprint)]) in here]
        for series, row in old.items()
    }
    runs = runs_of_groups(past) | {group: some for group, some in runs_of_groups(own).items() if some}
    return {group: set(some[-RECENT_RUNS:]) for group, some in runs.items()}


def _take_turns(one: Sequence[Point], other: Sequence[Point]) -> bool:
    """Whether no run has measured both; no commit where there are no workflow runs, as runs are of one machine then."""
    ran, ran_other = (
        {point.run if point.workflow_id else point.commit for point in points} for points in (one, other)
    )
    return ran.isdisjoint(ran_other)


def _why_missing(series: Series, new: Points) -> str:
    """Return why the series is missing, using the status of its case if there is one."""
    status = new.get(replace(series, metric=STATUS))
    reason = why_absent(series.metric, status[-1] if status else None)
    gone = f"not measured in this run; if it is gone for good, it is listed for {RECENT_RUNS} runs"
    return f"not measured: {reason}" if reason else gone


def missing_verdict(series: Series, why: str, old: Iterable[Point] = ()) -> Verdict:
    """Return the verdict on a series without a number."""
    past = [point for point in old if point.value is not None]
    return Verdict(
        series,
        "missing",
        why,
        old=past[-1].value if past else None,
        evidence=Evidence(commits_around(past, ()), others={"history": len(past)}),
    )
