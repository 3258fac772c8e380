"""The catalogue of a store: its series and its runs, without their values."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from torchperf_ci.metrics import STATUS
from torchperf_ci.records.schema import LATEST_SECOND
from torchperf_ci.series.from_store import machines_of_group
from torchperf_ci.series.points import RECENT_RUNS, Series, SeriesGroup, run_id, run_of, trunk_of
from torchperf_ci.web.columns import Numbering

if TYPE_CHECKING:
    from torchperf_ci.store.client import Store


@dataclass(frozen=True)
class RunEntry:
    """A run on one kind of machine; ``time`` and ``end`` are Unix seconds, ``url`` is its page on GitHub, if any."""

    id: str
    name: str
    repo: str
    benchmark: str
    device: str
    arch: str
    branch: str
    commit: str
    time: int
    end: int
    url: str

    @property
    def group(self) -> SeriesGroup:
        """The group of the series that the run measured."""
        return SeriesGroup(self.repo, self.benchmark, self.device, self.arch)


@dataclass(frozen=True)
class SeriesSpan:
    """The times of the first and the last result of a series, and the years, in UTC, in which it has any."""

    first: int
    last: int
    years: Sequence[int]


@dataclass(frozen=True)
class GroupCatalogue:
    """The series of one kind of machine, its runs, newest first, and the facts of its machines by digest."""

    series: Sequence[tuple[Series, SeriesSpan]]
    runs: Sequence[RunEntry]
    machines: Mapping[str, Mapping[str, str]]

    @cached_property
    def trunk(self) -> str:
        """The branch that is judged."""
        return trunk_of((run.branch, run.time) for run in self.runs)


@dataclass(frozen=True)
class StoreCatalogue:
    """The catalogues of all kinds of machines."""

    groups: Mapping[SeriesGroup, GroupCatalogue]

    @cached_property
    def series(self) -> Mapping[Series, SeriesSpan]:
        """All series."""
        return {series: span for group in self.groups.values() for series, span in group.series}

    @cached_property
    def by_id(self) -> Mapping[str, Series]:
        """The series by ID."""
        return {series.id: series for series in self.series}

    @cached_property
    def run_by_id(self) -> Mapping[str, RunEntry]:
        """The runs by ID."""
        return {run.id: run for group in self.groups.values() for run in group.runs}

    @cached_property
    def numberings(self) -> Mapping[SeriesGroup, Numbering]:
        """The numbers of the series of each kind of machine, in the order of their first results.

        New series get the next numbers, except that series of the metric ``status`` always come last.
        """
        return {
            name: Numbering([series.id for series in _ordered(group)]) for name, group in self.groups.items()
        }

    def recent(self, run: RunEntry) -> Sequence[RunEntry]:
        """Return up to ``RECENT_RUNS`` runs before this one on its branch and kind of machine, newest first."""
        runs = self.groups[run.group].runs
        earlier = islice(runs, runs.index(run) + 1, None)
        return [*islice((other for other in earlier if other.branch == run.branch), RECENT_RUNS)]


def _ordered(group: GroupCatalogue) -> list[Series]:
    ordered = sorted((one.metric == STATUS, span.first, one.names, one) for one, span in group.series)
    return [series for *_, series in ordered]


def read_catalogue(store: Store, group: SeriesGroup, server: str) -> GroupCatalogue:
    """Read the catalogue of a kind of machine; ``server`` is GitHub's URL. Raises what reading the store raises."""
    with store.keep_open():
        spans = store.rows(store.statement("catalogue"), group._asdict() | {"latest": LATEST_SECOND})
        runs = [_RunRow(*row) for row in store.rows(store.statement("runs"), group._asdict())]
        machines = machines_of_group(store, group)
    series = [
        (Series(*names), SeriesSpan(min(first, LATEST_SECOND), min(last, LATEST_SECOND), years))
        for *names, first, last, years in spans
    ]
    return GroupCatalogue(series, _runs(group, runs, server), machines)


class _RunRow(NamedTuple):
    """A row of ``runs.sql``. ``moment`` and ``place`` distinguish runs that name no workflow."""

    branch: str
    commit: str
    torch: str
    workflow_id: int
    run_attempt: int
    moment: int
    place: str
    first: int
    last: int


def _runs(group: SeriesGroup, rows: Sequence[_RunRow], server: str) -> Sequence[RunEntry]:
    """Merge rows of the same run, such as before and after a branch was renamed; the first row names the run.

    Its commit is PyTorch's, unless the commits of the repository whose jobs measured are more: then that repository
    uses PyTorch, and is what is measured.
    """
    named = max(
        [[row.torch for row in rows], [row.commit for row in rows]], key=lambda names: len({*names} - {""})
    )
    commits = {row: name or row.commit for row, name in zip(rows, named, strict=True)}
    found: dict[str, list[_RunRow]] = defaultdict(list)
    for row in rows:
        found[run_of(row.moment, row.commit, row.workflow_id, row.run_attempt, row.place)].append(row)
    runs = [_run(group, name, parts, commits, server) for name, parts in found.items()]
    return sorted(runs, key=lambda run: (run.time, run.name), reverse=True)


def _run(
    group: SeriesGroup, name: str, parts: Sequence[_RunRow], commits: Mapping[_RunRow, str], server: str
) -> RunEntry:
    first = min(parts, key=lambda row: (row.first, row.branch, row.commit))
    return RunEntry(
        run_id(group, name),
        name,
        *group,
        first.branch,
        commits[first],
        min(first.first, LATEST_SECOND),
        min(max(row.last for row in parts), LATEST_SECOND),
        f"{server}/{group.repo}/actions/runs/{first.workflow_id}" if first.workflow_id else "",
    )
