"""The documents of results: a year of a series, a run, and the comparison of two runs on one kind of machine."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import datetime, timezone
from operator import itemgetter
from typing import TYPE_CHECKING

from torchperf_ci.metrics import STATUS, rounded
from torchperf_ci.series.from_store import NEWEST_POINTS
from torchperf_ci.series.level_changes import levels_of
from torchperf_ci.series.outcomes import (
    disturbances,
    number_of,
    outcome_word,
    outcomes_of_cases,
    passed,
    why_without_number,
)
from torchperf_ci.series.points import Point, RunResults, Series, differing_facts, of_trunk, usual_facts
from torchperf_ci.series.policy import rule_of_points
from torchperf_ci.series.run_comparison import compare_runs, mean_ratios
from torchperf_ci.series.run_matrix import newest_machine, sensitivity_of
from torchperf_ci.series.segmenting import segment_all
from torchperf_ci.stats.past import NEWEST
from torchperf_ci.web.changes import Entry, change_entry, rounded_effect, with_culprits

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from torchperf_ci.config import Rule
    from torchperf_ci.series.level_changes import SeriesHistory
    from torchperf_ci.series.past_values import PastValues
    from torchperf_ci.web.catalogue import GroupCatalogue, RunEntry


def series_document(
    series: Series,
    points: Sequence[Point],
    group: GroupCatalogue,
    year: int,
    policy: Mapping[str, Rule],
    culprits: Sequence[Entry] = (),
) -> Entry:
    """Return a year of a series, judged in all its ``points``, oldest first, but those of runs that ``group`` lacks."""
    runs = {run.name: run for run in group.runs}
    points = [point for point in points if point.run in runs]
    trunk = of_trunk(points, group.trunk)
    rule = rule_of_points(series.metric, trunk, policy)
    (history,) = segment_all({series: trunk}, lambda *_: rule, with_newest=False)
    # As `check` computes them.
    sensitivity = next(iter(sensitivity_of({series: _settled(series, trunk, history)}, {series: rule})), None)
    noise, detectable = (sensitivity.noise, sensitivity.detectable) if sensitivity else (None, None)
    shown = [point for point in points if year_of(point.timestamp) == year]
    return {
        "id": series.id,
        "direction": rule.direction,
        "kind": rule.kind,
        "trunk": group.trunk,
        "year": year,
        "last": runs[shown[-1].run].id if shown else "",
        "points": {
            "run": _steps([group.run_places[point.run] for point in shown]),
            "after": [point.timestamp - runs[point.run].time for point in shown],
            **_value_columns([(series, point) for point in shown]),
        },
        "levels": [
            vars(level) | {"value": rounded(level.value)}
            for level in levels_of(trunk, history)
            if rule.kind != "outcome" and year_of(level.start) <= year <= year_of(level.end)
        ],
        "changes": [
            with_culprits(change_entry(series, change, rule, group.newest.time), culprits)
            for change in history.changes
            if year_of(change.first.timestamp) == year
        ],
        "machine_changes": [
            {"time": change.first.timestamp, "differs": change.differs}
            for change in history.machines
            if year_of(change.first.timestamp) == year
        ],
        "noise": noise and rounded(noise),
        "detectable": detectable and rounded(detectable),
        "min_effect": rule.min_effect,
        "version": 6,
    }


def _settled(series: Series, points: Sequence[Point], history: SeriesHistory) -> Sequence[Point]:
    """Return the newest points on one machine, but not those of a level that has just begun: its step is no noise."""
    own = newest_machine({series: points}).get(series, ())
    begun = [own.index(change.first) for change in history.changes if change.last in own]
    recent = (place for place in begun if place > len(own) - 2 * NEWEST)
    return own[: next(recent, None)][-NEWEST_POINTS:]


def year_of(timestamp: int) -> int:
    """Return the year in UTC; 1970 if the time is unknown."""
    return datetime.fromtimestamp(timestamp, timezone.utc).year


def _value_columns(results: Sequence[tuple[Series, Point]]) -> Entry:
    """Return one list per column; the ``n`` repetitions reach from ``below`` to ``above`` the value.

    ``value`` is None where there is no number, and ``why`` gives the reason. An outcome told as a word is 1 or 0, and
    ``why`` is the word of a failure.
    """
    rows = []
    for series, point in results:
        value = number_of(series, point)
        why = "" if value else why_without_number(series, point)
        rows.append((value and rounded(value), *_spread(value, point), len(point.repetitions), why))
    return _columns(("value", "below", "above", "n", "why"), rows)


_SPREAD_DIGITS = 3
"""Significant digits of distances from a value, of which four digits are shown."""


def _spread(value: float | None, point: Point) -> tuple[float | None, float | None]:
    """Return how far the repetitions reach below and above the value."""
    if value is None or not point.repetitions:
        return None, None
    below, above = value - min(point.repetitions), max(point.repetitions) - value
    return rounded(below, _SPREAD_DIGITS), rounded(above, _SPREAD_DIGITS)


def _steps(places: Sequence[int]) -> Sequence[int]:
    """Return how far each place is from the one before: nearly always 1, which takes no bytes when compressed."""
    return [place - before for before, place in zip((0, *places), places, strict=False)]


def _columns(names: Sequence[str], rows: Sequence[tuple[object, ...]]) -> Entry:
    """Return one list per column."""
    return {name: [row[place] for row in rows] for place, name in enumerate(names)}


@dataclass(frozen=True)
class RunDocument:
    """A run: its outcomes, and its ``values`` of all series but the statuses.

    ``series`` are the steps from the place of one of its series in the index to that of the next, up to the ``last``.
    ``counts`` are the numbers of cases by status, ``failed`` the cases that did not pass. ``not_run`` are the cases of
    recent runs that this one does not have, ``differs`` the facts of the ``machine`` that have changed since the
    previous run.
    """

    id: str
    previous: str | None
    machine: Mapping[str, str]
    differs: Sequence[str]
    counts: Mapping[str, int]
    failed: Sequence[Entry]
    not_run: Sequence[Mapping[str, str]]
    notes: Sequence[str]
    series: Sequence[int]
    last: str
    values: Entry
    version: int = 4


def run_document(
    run: RunEntry,
    previous: RunEntry | None,
    by_run: RunResults,
    recent_cases: set[Series],
    tried: set[Series],
    places: Mapping[Series, int],
) -> RunDocument:
    """Return a run. ``recent_cases`` may lack those of the previous run, where records have no time.

    ``tried`` are the cases of earlier attempts, ``places`` those of its series in the index.
    """
    results, before = by_run.get(run.name, {}), by_run.get(previous.name, {}) if previous else {}
    measured = sorted((item for item in results.items() if item[0].metric != STATUS), key=itemgetter(0))
    outcomes = outcomes_of_cases(results)
    known = recent_cases | {series.case for series in before}
    words = dict.fromkeys((series.case for series in results), "no status") | {
        case: "pass" if passed(point) else outcome_word(point) for case, point in outcomes.items()
    }
    machine = usual_facts(results.values())
    return RunDocument(
        run.id,
        previous.id if previous else None,
        machine,
        differing_facts(usual_facts(before.values()), machine) if before else [],
        Counter(words.values()),
        [
            {"name": _case_name(case), "status": words[case], "reason": outcomes[case].info.get("reason", "")}
            for case in sorted(outcomes)
            if words[case] != "pass"
        ],
        [_case_name(case) for case in sorted(known - words.keys() - tried)],
        disturbances({series: [point] for series, point in results.items()}),
        _steps([places[series] for series, _ in measured]),
        measured[-1][0].id if measured else "",
        _value_columns(measured),
    )


def compare_document(
    base: RunEntry,
    head: RunEntry,
    by_run: RunResults,
    past: Mapping[Series, PastValues],
    policy: Mapping[str, Rule],
) -> Entry:
    """Return the comparison of two runs on one kind of machine, the most relevant series first.

    ``past`` are the values up to the older one on its branch, from which the noise is estimated.
    """
    old, new = by_run.get(base.name, {}), by_run.get(head.name, {})
    rows = compare_runs(old, new, past, policy)
    return {
        "base": base.id,
        "head": head.id,
        "differs": differing_facts(usual_facts(old.values()), usual_facts(new.values())),
        "means": [vars(mean) | {"ratio": rounded(mean.ratio)} for mean in mean_ratios(rows)],
        "rows": {
            "series": [row.series.id for row in rows],
            "base": [row.old and rounded(row.old) for row in rows],
            "head": [row.new and rounded(row.new) for row in rows],
            **_columns(("ratio", "low", "high"), [rounded_effect(row.effect) for row in rows]),
            **{name: [getattr(row, name) for row in rows] for name in ("word", "worse", "why")},
        },
        "version": 3,
    }


def _case_name(case: Series) -> dict[str, str]:
    return {name: getattr(case, name) for name in ("model", "mode", "dtype", "backend")}
