"""What a store has: its series and its runs, without a single number of theirs."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from torchperf_ci.records.schema import LATEST_SECOND
from torchperf_ci.series.points import Series, SeriesGroup, run_id, run_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from torchperf_ci.store.client import Store


@dataclass(frozen=True)
class RunFacts:
    """A run on one kind of machine; ``time`` and ``end`` are Unix seconds, ``url`` its page at GitHub, if any."""

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
        """The series that were measured with it."""
        return SeriesGroup(self.repo, self.benchmark, self.device, self.arch)


@dataclass(frozen=True)
class SeriesSpan:
    """The times of the first and the last result of a series, and how many it has."""

    first: int
    last: int
    points: int


@dataclass(frozen=True)
class StoreCatalogue:
    """All series, and the runs of each kind of machine, newest first."""

    series: Mapping[Series, SeriesSpan]
    runs: Mapping[SeriesGroup, Sequence[RunFacts]]

    @cached_property
    def by_id(self) -> Mapping[str, Series]:
        """The series by their short names."""
        return {series.id: series for series in self.series}

    @cached_property
    def run_by_id(self) -> Mapping[str, RunFacts]:
        """The runs by their short names."""
        return {run.id: run for runs in self.runs.values() for run in runs}

    def before(self, run: RunFacts) -> RunFacts | None:
        """The run before on the same branch and kind of machine."""
        runs = self.runs[run.group]
        earlier = runs[runs.index(run) + 1 :]
        return next((other for other in earlier if other.branch == run.branch), None)


def read_catalogue(store: Store, server: str) -> StoreCatalogue:
    """The catalogue of a store; ``server`` is GitHub's address. Raises what reading the store raises."""
    with store.held():
        spans = store.rows(store.statement("catalogue"))
        runs = [_RunRow(*row) for row in store.rows(store.statement("runs"))]
    series = {
        Series(*names): SeriesSpan(min(first, LATEST_SECOND), min(last, LATEST_SECOND), points)
        for *names, first, last, points in spans
    }
    return StoreCatalogue(series, _runs(runs, server))


class _RunRow(NamedTuple):
    """A row of ``runs.sql``. ``moment`` and ``place`` tell runs apart that name no workflow."""

    repo: str
    benchmark: str
    device: str
    arch: str
    branch: str
    commit: str
    torch: str
    workflow_id: int
    run_attempt: int
    moment: int
    place: str
    first: int
    last: int


def _runs(rows: Sequence[_RunRow], server: str) -> Mapping[SeriesGroup, Sequence[RunFacts]]:
    """A run that spans several rows, as of a branch that was renamed meanwhile, is told by its first."""
    found: dict[tuple[SeriesGroup, str], list[_RunRow]] = defaultdict(list)
    for row in rows:
        name = run_of(row.moment, row.commit, row.workflow_id, row.run_attempt, row.place)
        found[SeriesGroup(*row[:4]), name].append(row)
    runs: dict[SeriesGroup, list[RunFacts]] = defaultdict(list)
    for (group, name), parts in found.items():
        runs[group].append(_run(group, name, parts, server))
    return {
        group: sorted(some, key=lambda run: (run.time, run.name), reverse=True)
        for group, some in sorted(runs.items())
    }


def _run(group: SeriesGroup, name: str, parts: Sequence[_RunRow], server: str) -> RunFacts:
    first = min(parts, key=lambda row: (row.first, row.branch, row.commit))
    return RunFacts(
        run_id(group, name),
        name,
        *group,
        first.branch,
        first.torch or first.commit,
        min(first.first, LATEST_SECOND),
        min(max(row.last for row in parts), LATEST_SECOND),
        f"{server}/{group.repo}/actions/runs/{first.workflow_id}" if first.workflow_id else "",
    )
