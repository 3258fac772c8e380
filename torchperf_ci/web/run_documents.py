"""The documents of a run, and of the comparison of two runs on one kind of machine."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from torchperf_ci.metrics import STATUS, kind_of, rounded
from torchperf_ci.series.outcomes import disturbances, outcome_word, passed
from torchperf_ci.series.points import Point, Points, Series, differing_facts
from torchperf_ci.series.run_comparison import compare_runs, mean_ratios
from torchperf_ci.web.columns import (
    SHOWN_DIGITS,
    ranges,
    rounded_effect,
    short_number,
    value_columns,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from torchperf_ci.config import Rule
    from torchperf_ci.series.past_values import PastValues
    from torchperf_ci.web.catalogue import RunEntry
    from torchperf_ci.web.columns import Numbering


@dataclass(frozen=True)
class RunState:
    """The outcomes of a run. ``counts`` are the numbers of cases by status, ``failed`` the cases that did not pass.

    ``not_run`` are the cases of recent runs that this one does not have, ``differs`` the facts of the ``machine`` that
    have changed since the previous run.
    """

    machine: Mapping[str, str]
    differs: Sequence[str]
    counts: Mapping[str, int]
    failed: Sequence[Mapping[str, object]]
    not_run: Sequence[Mapping[str, str]]


def run_state(
    run: RunEntry, previous: RunEntry | None, points: Points, recent_cases: Iterable[Series]
) -> RunState:
    """Return the outcomes of a run. ``points`` must include those of both runs.

    ``recent_cases`` may lack those of the previous run, where records have no time.
    """
    taken, before = _taken(points, run), _taken(points, previous) if previous else {}
    outcomes = _outcomes(taken)
    ran = dict.fromkeys(series.case for series in taken)
    known = {*recent_cases, *(series.case for series in before)}
    words = dict.fromkeys(ran, "no status") | {
        case: "pass" if passed(point) else outcome_word(point) for case, point in outcomes.items()
    }
    machine = _machine(taken)
    return RunState(
        machine,
        differing_facts(_machine(before), machine) if before else [],
        Counter(words.values()),
        [
            {"name": _case_name(case), "status": words[case], "reason": outcomes[case].info.get("reason", "")}
            for case in sorted(outcomes)
            if words[case] != "pass"
        ],
        [_case_name(case) for case in sorted(known - {*ran})],
    )


def _outcomes(taken: Mapping[Series, Point]) -> Mapping[Series, Point]:
    """Return the outcome of each case: a failure, else its status, else its accuracy."""
    known = [
        (passed(point) is False, series.metric == STATUS, series.case, point)
        for series, point in taken.items()
        if series.metric == STATUS or (kind_of(series.metric) == "outcome" and passed(point) is not None)
    ]
    return {case: point for _, _, case, point in sorted(known, key=lambda row: row[:2])}


def run_document(
    run: RunEntry,
    previous: RunEntry | None,
    state: RunState,
    points: Points,
    numbering: Numbering,
) -> dict[str, object]:
    """Return a run: its state, and its values of all series but the statuses, in the order of ``numbering``."""
    taken = _taken(points, run)
    numbered = {numbering.numbers[series.id]: series for series in taken if series.metric != STATUS}
    numbers = sorted(numbered)
    measured = [numbered[number] for number in numbers]
    return {
        "id": run.id,
        "previous": previous.id if previous else None,
        **vars(state),
        "notes": disturbances({series: [point] for series, point in taken.items()}),
        "series": ranges(numbers),
        "numbering": numbering.checksum(numbers),
        "values": value_columns([(series, taken[series]) for series in measured], SHOWN_DIGITS),
        "version": 2,
    }


def compare_document(
    base: RunEntry,
    head: RunEntry,
    points: Points,
    past: Mapping[Series, PastValues],
    policy: Mapping[str, Rule],
    numbering: Numbering,
) -> dict[str, object]:
    """Return the comparison of two runs on one kind of machine, the most relevant series first.

    ``points`` are those of both; ``past`` are the values up to the older one on its branch, from which the noise is
    estimated.
    """
    old, new = _taken(points, base), _taken(points, head)
    rows = compare_runs(old, new, past, policy)
    effects = [rounded_effect(row.effect) for row in rows]
    numbers = [numbering.numbers[row.series.id] for row in rows]
    return {
        "base": base.id,
        "head": head.id,
        "differs": differing_facts(_machine(old), _machine(new)),
        "means": [vars(mean) | {"ratio": rounded(mean.ratio)} for mean in mean_ratios(rows)],
        "numbering": numbering.checksum(numbers),
        "rows": {
            "series": numbers,
            "base": [short_number(row.old, SHOWN_DIGITS) for row in rows],
            "head": [short_number(row.new, SHOWN_DIGITS) for row in rows],
            **{
                name: [effect[place] for effect in effects]
                for place, name in enumerate(("ratio", "low", "high"))
            },
            **{name: [getattr(row, name) for row in rows] for name in ("word", "worse", "why")},
        },
        "version": 2,
    }


def _taken(points: Points, run: RunEntry) -> dict[Series, Point]:
    return {series: point for series, row in points.items() for point in row[::-1] if point.run == run.name}


def _case_name(case: Series) -> dict[str, str]:
    return {name: getattr(case, name) for name in ("model", "mode", "dtype", "backend")}


def _machine(taken: Mapping[Series, Point]) -> Mapping[str, str]:
    """Return the most frequent fingerprint; facts of single cases, such as a batch size, are not the machine's."""
    shared = {id(point.fingerprint): point.fingerprint for point in taken.values()}
    keys = {place: tuple(sorted(facts.items())) for place, facts in shared.items()}
    counts = Counter(keys[id(point.fingerprint)] for point in taken.values())
    return dict(counts.most_common(1)[0][0]) if counts else {}
