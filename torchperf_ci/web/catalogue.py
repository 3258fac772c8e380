"""The catalogue of a store: its series and its runs, without their values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from torchperf_ci.records.record import SYNTHETIC_FROM
from torchperf_ci.records.schema import LATEST_SECOND
from torchperf_ci.series.from_store import machines_of_group
from torchperf_ci.series.points import RECENT_RUNS, Series, SeriesGroup, natural, run_id, trunk_of

if TYPE_CHECKING:
    from torchperf_ci.store.client import Store

COMPARED_RUNS = 30
"""Number of newest runs of each kind of machine that a static site compares with the run before."""


@dataclass(frozen=True)
class RunEntry:
    """A run on one kind of machine; ``time`` and ``end`` are Unix seconds, ``url`` is its page on GitHub, if any.

    Both are :data:`LATEST_SECOND` where its records have later times, as those in milliseconds are.
    """

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

    def repeats(self, other: RunEntry) -> bool:
        """Whether both are attempts of the same workflow run, the later one often of its failed jobs only."""
        return self.url == other.url != ""

    @property
    def period(self) -> tuple[int, int]:
        """The times in the store between which all results of the run are, also those that ``end`` cannot tell."""
        return self.time, self.end if self.end < LATEST_SECOND else 2**62


class SeriesSpan(NamedTuple):
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
    def spans(self) -> Mapping[Series, SeriesSpan]:
        """The times of each series."""
        return dict(self.series)

    @cached_property
    def series_places(self) -> Mapping[Series, int]:
        """The place of each series among its machine's in the index."""
        return {series: place for place, series in enumerate(sorted(self.spans))}

    @cached_property
    def run_places(self) -> Mapping[str, int]:
        """The place of each run, by name, among its machine's, oldest first."""
        return {run.name: place for place, run in enumerate(reversed(self.runs))}

    @cached_property
    def trunk(self) -> str:
        """The branch that is judged."""
        return trunk_of((run.branch, run.time) for run in self.runs)

    @property
    def newest(self) -> RunEntry:
        """The newest run on that branch."""
        return next(run for run in self.runs if run.branch in ("", self.trunk))

    @property
    def comparisons(self) -> Sequence[tuple[str, str]]:
        """The newest runs, each with the previous one on its branch, as the IDs of base and head."""
        return [
            (recent[0].id, head.id) for head in self.runs[:COMPARED_RUNS] if (recent := self.recent(head))
        ]

    def recent(self, run: RunEntry, most: int = RECENT_RUNS) -> Sequence[RunEntry]:
        """Return up to ``most`` runs before this one on its branch, newest first, and none that it repeats."""
        on_branch = (other for other in self._before(run) if other.branch == run.branch)
        return [*islice((other for other in on_branch if not run.repeats(other)), most)]

    def begun(self, run: RunEntry) -> int:
        """Return when the first attempt of the workflow run began."""
        earlier = islice(self._before(run), 2 * RECENT_RUNS)
        return min((other.time for other in earlier if run.repeats(other)), default=run.time)

    def _before(self, run: RunEntry) -> Iterator[RunEntry]:
        return islice(self.runs, len(self.runs) - self.run_places[run.name], None)


def read_catalogue(store: Store, group: SeriesGroup, server: str) -> GroupCatalogue:
    """Read the catalogue of a kind of machine; ``server`` is GitHub's URL. Raises what reading the store raises."""
    parameters = group._asdict() | {"latest": LATEST_SECOND, "server": server, "synthetic": SYNTHETIC_FROM}
    with store.keep_open():
        spans = store.rows(store.statement("catalogue"), parameters)
        runs = store.rows(store.statement("runs"), parameters)
        machines = machines_of_group(store, group)
    entries = [RunEntry(run_id(group, name), name, *group, *about) for name, *about in runs]
    return GroupCatalogue(
        [(Series(*names), SeriesSpan(first, last, years)) for *names, first, last, years in spans],
        sorted(entries, key=lambda run: (run.time, natural(run.name)), reverse=True),
        machines,
    )
