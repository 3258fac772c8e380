"""The documents about the whole store: its index, the state of each kind of machine, and all changes and culprits."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from math import inf, log
from typing import TYPE_CHECKING

from torchperf_ci.document import counted
from torchperf_ci.metrics import LATENCY, STATUS, name_and_unit, rounded
from torchperf_ci.records.schema import LATEST_SECOND
from torchperf_ci.series.points import Points, Series, SeriesGroup, of_trunk, without_restating
from torchperf_ci.series.policy import MetricRule, rule_of_points
from torchperf_ci.series.run_comparison import Trend, latency_trend
from torchperf_ci.series.segmenting import segment_all
from torchperf_ci.web.catalogue import RunEntry, StoreCatalogue
from torchperf_ci.web.changes import ChangeEntry, change_entry, with_culprits

if TYPE_CHECKING:
    from collections.abc import Callable

    from torchperf_ci.config import Rule
    from torchperf_ci.series.level_changes import SeriesHistory, SeriesName
    from torchperf_ci.web.changes import ProvenCulprit
    from torchperf_ci.web.result_documents import RunState


NEWEST_CULPRITS = 5
MAX_SERIES = 20
"""Most series that are listed for a cause, which is as many as a chart shows."""
_DAY = 86_400
_WEEK = 7 * _DAY
_NAMES = tuple(Series.__dataclass_fields__)


@dataclass(frozen=True)
class GroupEntry:
    """The state of one kind of machine: its newest run, what did not run in it, and its open regressions.

    ``breaks`` are the days of ``trend`` from which on most latencies are those of another machine; ``newly_worse`` are
    the IDs of series whose newest runs are worse by the rules of ``check``, but too few for a level. If it is
    ``too_new``, no series has enough runs for that, counts and outcomes aside.
    """

    run: RunEntry
    previous: RunEntry | None
    counts: Mapping[str, int]
    not_run: int
    differs: Sequence[str]
    trend: Trend
    breaks: Sequence[int]
    series: int
    open: int
    recovered: int
    newly_worse: Sequence[str]
    too_new: bool


@dataclass(frozen=True)
class RegressionEntry:
    """A change of level, with the ID, the names and the unit of its series."""

    series: str
    name: Mapping[str, str]
    unit: str
    change: ChangeEntry


@dataclass(frozen=True)
class GroupSummary:
    """What the overview and the list of regressions need of one kind of machine."""

    entry: GroupEntry
    changes: Sequence[RegressionEntry]


def summary_of_group(
    catalogue: StoreCatalogue,
    group: SeriesGroup,
    points: Points,
    policy: Mapping[str, Rule],
    state_of: Callable[[RunEntry, Points], RunState],
) -> GroupSummary:
    """Summarize a group. ``points`` are all of its points, at least one. Changes do not include their culprits."""
    measured = catalogue.groups[group]
    trunk = {series: of_trunk(row, measured.trunk) for series, row in points.items()}
    judged = without_restating(trunk)
    rules: dict[SeriesName, MetricRule] = {
        series: rule_of_points(series.metric, row, policy) for series, row in judged.items()
    }
    segmented = segment_all(dict(judged.items()), lambda name, _: rules[name])
    histories = dict(zip(judged, segmented, strict=True))
    changes = [
        RegressionEntry(
            series.id, asdict(series), name_and_unit(series.metric)[1], change_entry(change, rules[series])
        )
        for series, history in histories.items()
        for change in history.changes
    ]
    newest = _newest(measured.runs, trunk)
    state = state_of(newest, points)
    trend = latency_trend(trunk)
    noisy = [history for series, history in histories.items() if rules[series].kind in ("ratio", "amount")]
    entry = GroupEntry(
        newest,
        next(iter(catalogue.recent(newest)), None),
        state.counts,
        len(state.not_run),
        state.differs,
        replace(trend, ratio=[rounded(ratio) for ratio in trend.ratio]),
        _breaks(trend, [history for series, history in histories.items() if series.metric == LATENCY]),
        len(points),
        sum(row.change.is_open for row in changes),
        sum(row.change.recovered is not None for row in changes),
        [series.id for series, history in histories.items() if _is_newly_worse(history, rules[series])],
        bool(noisy) and all(history.is_too_short for history in noisy),
    )
    return GroupSummary(entry, changes)


def _is_newly_worse(history: SeriesHistory, rule: MetricRule) -> bool:
    effect = history.newest.effect if history.newest else None
    return bool(effect and (effect.ratio - 1) * rule.worse > 0)


def _breaks(trend: Trend, latencies: Sequence[SeriesHistory]) -> list[int]:
    """Return the days on which at least half of the latencies of the day change their machine."""
    changed = Counter(
        machine.first.timestamp // _DAY * _DAY for history in latencies for machine in history.machines
    )
    days = [*zip(trend.day, trend.n, strict=True)]
    return [day for day, count in days[1:] if 2 * changed[day] >= count]


def index_document(
    catalogue: StoreCatalogue, comparisons: Sequence[tuple[str, str]], subjects: Mapping[str, str]
) -> Mapping[str, object]:
    """Return the list of all series and runs.

    ``comparisons`` are the pairs of runs for which a static site has documents, ``subjects`` the known subjects of
    measured commits. A series is listed as its ID, an index into ``names`` for each of ``fields``, its first and
    last time, and the years for which it has a document.
    """
    names = {field: sorted({getattr(series, field) for series in catalogue.series}) for field in _NAMES}
    places = {field: {name: place for place, name in enumerate(found)} for field, found in names.items()}
    return {
        "fields": _NAMES,
        "names": names,
        "series": [
            [series.id, *(places[field][getattr(series, field)] for field in _NAMES), *vars(span).values()]
            for series, span in sorted(catalogue.series.items(), key=lambda item: item[0])
        ],
        "units": {metric: name_and_unit(metric)[1] for metric in names["metric"]},
        # Runs of one time stay in the order of their kind of machine.
        "runs": sorted(catalogue.run_by_id.values(), key=lambda run: -run.time),
        "comparisons": comparisons,
        "subjects": subjects,
        "version": 3,
    }


def overview_document(
    summaries: Sequence[GroupSummary], culprits: Sequence[ProvenCulprit]
) -> Mapping[str, object]:
    """Return the state of every kind of machine, those with open regressions first.

    ``tone`` is ``bad`` if any is open, ``good`` if nothing is wrong, else ``warning``.
    ``time`` is that of the newest point that is not in milliseconds. ``causes`` are all open regressions grouped by
    cause, newest first; ``culprits`` the newest commits that bisections have proven, for any series. Machines that
    have stopped reporting are ``silent``.
    """
    groups = sorted(
        (summary.entry for summary in summaries), key=lambda entry: (-entry.open, -entry.run.time)
    )
    newest = max((group.run.end for group in groups if group.run.end < LATEST_SECOND), default=0)
    lasting = [entry for summary in summaries for entry in summary.changes if entry.change.is_open]
    new = sum(entry.change.time > newest - _WEEK for entry in lasting)
    silent = [_is_silent(group, newest) for group in groups]
    troubles = _troubles(groups, sum(silent))
    return {
        "sentence": _sentence(groups, len(lasting), new, troubles),
        "tone": "bad" if lasting else "good" if groups and not troubles else "warning",
        "time": newest,
        "causes": _causes(lasting, culprits),
        "groups": [
            vars(group) | {"silent": is_silent} for group, is_silent in zip(groups, silent, strict=True)
        ],
        "culprits": [entry.evidence for entry in culprits[:NEWEST_CULPRITS]],
        "version": 2,
    }


def regressions_document(
    summaries: Sequence[GroupSummary], culprits: Sequence[ProvenCulprit]
) -> Mapping[str, object]:
    """Return all culprits, and the changes on all kinds of machines, newest first."""
    changes = [entry for summary in summaries for entry in summary.changes]
    return {
        "culprits": [shown.entry for shown in culprits],
        "changes": [
            vars(entry) | {"change": with_culprits(entry.change, culprits)}
            for entry in sorted(changes, key=lambda entry: (-entry.change.time, entry.series))
        ],
        "version": 1,
    }


def _causes(
    lasting: Sequence[RegressionEntry], culprits: Sequence[ProvenCulprit]
) -> list[Mapping[str, object]]:
    """Group regressions by their range of commits; if the commits are unknown, by machine and time."""
    by_range: dict[object, list[RegressionEntry]] = defaultdict(list)
    for entry in sorted(lasting, key=_severity):
        change, name = entry.change, entry.name
        known = (change.last_commit, change.first_commit)
        by_range[known if change.first_commit else (name["device"], name["arch"], change.time)].append(entry)
    newest = {key: max(entry.change.time for entry in entries) for key, entries in by_range.items()}
    return [
        {
            "time": newest[key],
            "last_commit": worst.change.last_commit,
            "first_commit": worst.change.first_commit,
            "count": len(entries),
            "series": [entry.series for entry in entries[:MAX_SERIES]],
            "name": worst.name,
            "unit": worst.unit,
            **{field: getattr(worst.change, field) for field in ("old", "new", "ratio")},
            "machines": sorted({(entry.name["device"], entry.name["arch"]) for entry in entries}),
            "culprits": with_culprits(worst.change, culprits)["culprits"],
        }
        for key, entries in sorted(by_range.items(), key=lambda item: -newest[item[0]])
        for worst in entries[:1]
    ]


def _severity(entry: RegressionEntry) -> tuple[bool, float, str]:
    """Return a sort key: failures first, then changes without a ratio, then the largest ones."""
    ratio = entry.change.ratio
    return (entry.name["metric"] != STATUS, -abs(log(ratio)) if ratio else -inf, entry.series)


def _is_silent(group: GroupEntry, newest: int) -> bool:
    """Whether a machine has stopped reporting, compared with the newest result of any machine.

    It has no run for more than a week, nor for three times as long as between its two newest runs. Without the time of
    any run, nobody knows.
    """
    usual = group.run.time - group.previous.time if group.previous else 0
    return 0 < group.run.end < newest - max(_WEEK, 3 * usual)


def _sentence(groups: Sequence[GroupEntry], lasting: int, new: int, troubles: Sequence[str]) -> str:
    if not groups:
        return "There are no results yet."
    regressions = (
        f"{counted(lasting, 'regression is', 'regressions are')} open" if lasting else "No regression is open"
    )
    if new:
        regressions += f",{f' {new} of them' if new < lasting else ''} less than a week old"
    passed = sum(group.counts.get("pass", 0) for group in groups)
    fine = f"{counted(passed, 'case')} passed" if passed else "no case failed"
    return f"{regressions}; {'; '.join(troubles) or f'{fine} in the newest runs'}."


def _troubles(groups: Sequence[GroupEntry], silent: int) -> list[str]:
    """Return in words what is wrong besides open regressions."""
    failed = sum(count for group in groups for word, count in group.counts.items() if word not in _FINE)
    missing = sum(group.not_run for group in groups)
    worse = sum(len(group.newly_worse) for group in groups)
    cases = sum(sum(group.counts.values()) for group in groups)
    new = sum(group.too_new for group in groups)
    return [
        *([f"{worse:,} series got worse too recently to count as regressed"] if worse else []),
        *([f"{failed:,} of {counted(cases, 'case')} failed in the newest runs"] if failed else []),
        *([f"{counted(missing, 'case')} did not run"] if missing else []),
        *([f"{counted(silent, 'machine has', 'machines have')} stopped reporting"] if silent else []),
        *([f"{counted(new, 'machine has', 'machines have')} too few runs to be judged"] if new else []),
    ]


_FINE = ("pass", "unsupported", "skipped", "no status")


def _newest(runs: Sequence[RunEntry], trunk: Points) -> RunEntry:
    """Return the newest run among those that are judged."""
    judged = {point.run for row in trunk.values() for point in row}
    return next(run for run in runs if run.name in judged)
