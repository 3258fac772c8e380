"""The documents about the whole store: its index, the state of each kind of machine, and all changes and culprits."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import inf, log
from operator import itemgetter
from typing import TYPE_CHECKING

from torchperf_ci.document import counted
from torchperf_ci.metrics import STATUS, name_and_unit
from torchperf_ci.records.schema import LATEST_SECOND
from torchperf_ci.series.points import Points, Series, of_trunk, without_restating
from torchperf_ci.series.policy import rule_of_points
from torchperf_ci.series.run_comparison import Trend, latency_trend
from torchperf_ci.series.segmenting import segment_all
from torchperf_ci.web.catalogue import GroupCatalogue, RunEntry
from torchperf_ci.web.changes import ChangeEntry, Entry, change_entry, with_culprits

if TYPE_CHECKING:
    from torchperf_ci.config import Rule
    from torchperf_ci.web.result_documents import RunDocument


NEWEST_CULPRITS = 5
MAX_SERIES = 20
"""Most series that are listed for a cause, which is as many as a chart shows."""
_WEEK = 7 * 86_400
_NAMES = tuple(Series.__dataclass_fields__)


@dataclass(frozen=True)
class GroupEntry:
    """The state of one kind of machine: its newest run and the previous one, what did not run, its open regressions.

    ``newly_worse`` are the IDs of series whose newest runs are worse by the rules of ``check``, but too few for a
    level. If it is ``too_new``, no series has enough runs for that, counts and outcomes aside. ``longest_gap`` is the
    longest time between two successive runs among the newest ones, in seconds; if it is ``silent``, it has stopped
    reporting.
    """

    run: RunEntry
    previous: str | None
    counts: Mapping[str, int]
    not_run: int
    differs: Sequence[str]
    trend: Trend
    series: int
    open: int
    recovered: int
    newly_worse: Sequence[str]
    too_new: bool
    longest_gap: int
    silent: bool = False


@dataclass(frozen=True)
class GroupSummary:
    """What the overview and the list of regressions need of one kind of machine."""

    entry: GroupEntry
    changes: Sequence[ChangeEntry]


def summary_of_group(
    group: GroupCatalogue, points: Points, policy: Mapping[str, Rule], newest: RunDocument
) -> GroupSummary:
    """Summarize a group. ``points`` are all of its points, ``newest`` is the document of its newest run."""
    judged = without_restating({series: of_trunk(row, group.trunk) for series, row in points.items()})
    segmented = segment_all(judged, lambda series, row: rule_of_points(series.metric, row, policy))
    histories = dict(zip(judged, segmented, strict=True))
    changes = [
        change_entry(series, change, history.rule, group.newest.time)
        for series, history in histories.items()
        for change in history.changes
    ]
    noisy = [history for history in segmented if history.rule.kind in ("ratio", "amount")]
    gaps = (later.time - run.time for later, run in pairwise([group.newest, *group.recent(group.newest)]))
    entry = GroupEntry(
        group.newest,
        newest.previous,
        newest.counts,
        len(newest.not_run),
        newest.differs,
        latency_trend(judged, histories),
        len(points),
        sum(change.is_open for change in changes),
        sum(change.recovered is not None for change in changes),
        [series.id for series, history in histories.items() if history.is_newly_worse],
        bool(noisy) and all(history.is_too_short for history in noisy),
        max(gaps, default=0),
    )
    return GroupSummary(entry, changes)


def index_document(groups: Sequence[GroupCatalogue], subjects: Mapping[str, str]) -> Entry:
    """Return the list of all series and runs.

    ``comparisons`` are the pairs of runs for which a static site has documents, ``subjects`` the known subjects of
    measured commits. A series is listed as its ID, an index into ``names`` for each of ``fields``, its first and
    last time, and the years for which it has a document.
    """
    spans = sorted((known for group in groups for known in group.series), key=itemgetter(0))
    names = {field: sorted({getattr(series, field) for series, _ in spans}) for field in _NAMES}
    places = {field: {name: place for place, name in enumerate(found)} for field, found in names.items()}
    return {
        "fields": _NAMES,
        "names": names,
        "series": [
            [series.id, *(places[field][getattr(series, field)] for field in _NAMES), *span]
            for series, span in spans
        ],
        "units": {metric: name_and_unit(metric)[1] for metric in names["metric"]},
        # Runs of one time stay in the order of their kind of machine.
        "runs": sorted((run for group in groups for run in group.runs), key=lambda run: -run.time),
        "comparisons": [pair for group in groups for pair in group.comparisons],
        "subjects": subjects,
        "version": 3,
    }


def overview_document(summaries: Sequence[GroupSummary], culprits: Sequence[Entry]) -> Entry:
    """Return the state of every kind of machine, those with open regressions first.

    ``tone`` is ``bad`` if any is open, ``good`` if nothing is wrong, else ``warning``.
    ``time`` is that of the newest point that is not in milliseconds. ``causes`` are all open regressions grouped by
    cause, newest first; ``culprits`` the newest commits that bisections have proven, for any series.
    """
    newest = max((end for one in summaries if (end := one.entry.run.end) < LATEST_SECOND), default=0)
    groups = [replace(one.entry, silent=_is_silent(one.entry, newest)) for one in summaries]
    groups.sort(key=lambda entry: (-entry.open, -entry.run.time))
    lasting = [change for summary in summaries for change in summary.changes if change.is_open]
    new = sum(change.time > newest - _WEEK for change in lasting)
    troubles = _troubles(groups)
    return {
        "sentence": _sentence(groups, len(lasting), new, troubles),
        "tone": "bad" if lasting else "good" if groups and not troubles else "warning",
        "time": newest,
        "causes": _causes(lasting, culprits),
        "groups": groups,
        "culprits": [entry["culprit"] for entry in culprits[:NEWEST_CULPRITS]],
        "version": 5,
    }


def regressions_document(summaries: Sequence[GroupSummary], culprits: Sequence[Entry]) -> Entry:
    """Return all culprits, and the changes on all kinds of machines, newest first."""
    changes = [change for summary in summaries for change in summary.changes]
    changes.sort(key=lambda change: (-change.time, change.series))
    return {
        "culprits": culprits,
        "changes": [with_culprits(change, culprits) for change in changes],
        "version": 3,
    }


def _causes(lasting: Sequence[ChangeEntry], culprits: Sequence[Entry]) -> list[Entry]:
    """Group regressions by their range of commits; if the commits are unknown, by machine and time."""
    by_range: dict[object, list[ChangeEntry]] = defaultdict(list)
    for change in sorted(lasting, key=_severity):
        commits, machine = (change.last_commit, change.first_commit), _machine(change)
        by_range[commits if change.first_commit else (machine, change.time)].append(change)
    return [
        {
            "time": _newest_time(changes),
            "count": len(changes),
            "series": [change.series for change in changes[:MAX_SERIES]],
            "machines": sorted({*map(_machine, changes)}),
            "worst": with_culprits(changes[0], culprits),
        }
        for changes in sorted(by_range.values(), key=_newest_time, reverse=True)
    ]


def _newest_time(changes: Sequence[ChangeEntry]) -> int:
    return max(change.time for change in changes)


def _machine(change: ChangeEntry) -> tuple[str, str]:
    return change.name["device"], change.name["arch"]


def _severity(change: ChangeEntry) -> tuple[bool, float, str]:
    """Return a sort key: failures first, then changes without a ratio, then the largest ones."""
    size = abs(log(change.ratio)) if change.ratio else inf
    return (change.name["metric"] != STATUS, -size, change.series)


def _is_silent(machine: GroupEntry, newest: int) -> bool:
    """Whether a machine has stopped reporting, compared with the newest result of any machine.

    It has no run for more than a week, nor for three times as long as ever between its newest runs: machines of one
    label take turns at random. Without the time of any run, nobody knows.
    """
    return 0 < machine.run.end < newest - max(_WEEK, 3 * machine.longest_gap)


def _sentence(groups: Sequence[GroupEntry], lasting: int, new: int, troubles: Sequence[str]) -> str:
    if not groups:
        return "There are no results yet."
    regressions = counted(lasting, "regression is", "regressions are") if lasting else "No regression is"
    age = f",{f' {new} of them' if new < lasting else ''} less than a week old" if new else ""
    passed = sum(group.counts.get("pass", 0) for group in groups)
    fine = f"{counted(passed, 'case')} passed" if passed else "no case failed"
    return f"{regressions} open{age}; {'; '.join(troubles) or f'{fine} in the newest runs'}."


def _troubles(groups: Sequence[GroupEntry]) -> list[str]:
    """Return in words what is wrong besides open regressions."""
    failed = sum(count for group in groups for word, count in group.counts.items() if word not in _FINE)
    missing = sum(group.not_run for group in groups)
    worse = sum(len(group.newly_worse) for group in groups)
    cases = sum(sum(group.counts.values()) for group in groups)
    silent = sum(group.silent for group in groups)
    new = sum(group.too_new for group in groups)
    return [
        *([f"{worse:,} series got worse too recently to count as regressed"] if worse else []),
        *([f"{failed:,} of {counted(cases, 'case')} failed in the newest runs"] if failed else []),
        *([f"{counted(missing, 'case')} did not run"] if missing else []),
        *([f"{counted(silent, 'machine has', 'machines have')} stopped reporting"] if silent else []),
        *([f"{counted(new, 'machine has', 'machines have')} too few runs to be judged"] if new else []),
    ]


_FINE = ("pass", "unsupported", "skipped", "no status")
