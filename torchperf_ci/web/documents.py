"""The JSON documents of a store by path. They depend on the contents of the store only, byte for byte.

The paths are ``index.json``, ``overview.json``, ``regressions.json``, ``series/ID/YEAR.json``, ``run/ID.json`` and
``compare/BASE/HEAD.json``. All statistics are computed here, by the modules that judge changes; the browser only
filters and draws.
"""

from __future__ import annotations

import gc
import os
import re
from bisect import bisect_right
from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from torchperf_ci.errors import TorchperfError
from torchperf_ci.github import GITHUB, github_server
from torchperf_ci.series.from_store import points_of_runs, points_of_store
from torchperf_ci.series.past_values import PastValues, past_of_points, past_of_store
from torchperf_ci.stats.past import BASELINE
from torchperf_ci.store.judged import commit_subjects
from torchperf_ci.web.catalogue import (
    GroupCatalogue,
    StoreCatalogue,
    read_catalogue,
)
from torchperf_ci.web.kept_facts import KeptFacts, as_json
from torchperf_ci.web.known_culprits import bisections_of_store, proven_culprits
from torchperf_ci.web.overview import (
    GroupSummary,
    index_document,
    overview_document,
    regressions_document,
    summary_of_group,
)
from torchperf_ci.web.run_documents import compare_document, run_document
from torchperf_ci.web.series_document import series_document, year_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from torchperf_ci import config
    from torchperf_ci.series.points import Point, Points, Series, SeriesGroup
    from torchperf_ci.store.client import Store
    from torchperf_ci.web.catalogue import RunFacts
    from torchperf_ci.web.known_culprits import ProvenCulprit


COMPARED_RUNS = 30
"""Number of newest runs of each kind of machine that a static site compares with the run before."""
_SERIES = re.compile(r"series/([0-9a-f]{10})/([0-9]{4})\.json")
_RUN = re.compile(r"run/([0-9a-f]{10})\.json")
_COMPARE = re.compile(r"compare/([0-9a-f]{10})/([0-9a-f]{10})\.json")


def collect_garbage_rarely() -> None:
    """Tune the garbage collector for many documents: they have no cycles, and searching all points for some is slow."""
    gc.set_threshold(100_000, 50, 100)


def documents_of_store(store: Store, settings: config.Config) -> Documents:
    """Return the documents of a store, with the policy and the issue tracker of the project's configuration."""
    server = github_server(os.environ)
    tracker = f"{server}/{settings.issues.repo}" if settings.issues.repo else ""
    return Documents(store, settings.policy, server, tracker)


class UnknownDocumentError(TorchperfError):
    """There is no document with this path, or no series or run that it names."""

    def __init__(self) -> None:
        super().__init__("there is no such document; index.json lists what there is")


class Documents:
    """The documents of an open store.

    Data that several of them need is read once, so create a new instance when the store changes.
    """

    def __init__(
        self, store: Store, policy: Mapping[str, config.Rule], server: str = GITHUB, tracker: str = ""
    ) -> None:
        """``tracker`` is the URL of the repository that has the issues, if it is not the one that was bisected."""
        self._store, self._policy, self._server, self._tracker = store, policy, server, tracker
        self._whole = _WholeGroup(None, {})

    def document(self, path: str) -> bytes:
        """Return the document of a path as JSON. Raises :class:`UnknownDocumentError`, or what reading raises."""
        return as_json(self._made(path))

    def _made(self, path: str) -> object:
        if path in _WHOLE:
            return _WHOLE[path](self)
        if match := _SERIES.fullmatch(path):
            return self._series(match[1], int(match[2]))
        if match := _RUN.fullmatch(path):
            return self._run(match[1])
        if match := _COMPARE.fullmatch(path):
            return self._compare(match[1], match[2])
        raise UnknownDocumentError

    def everything(self) -> Iterator[tuple[str, bytes]]:
        """Yield all documents with their paths; the points of each kind of machine are read only once."""
        for path in _WHOLE:
            yield path, self.document(path)
        for group in self.catalogue.runs:
            self._read_whole(group)
            for path in self._paths_of_group(group):
                yield path, self.document(path)

    def _paths_of_group(self, group: SeriesGroup) -> Iterator[str]:
        for series, span in self.catalogue.by_group[group].items():
            years = range(year_of(span.first), year_of(span.last) + 1)
            yield from (f"series/{series.id}/{year}.json" for year in years)
        yield from (f"run/{run.id}.json" for run in self.catalogue.runs[group])
        yield from (f"compare/{base}/{head}.json" for base, head in self._comparisons_of(group))

    @cached_property
    def catalogue(self) -> StoreCatalogue:
        """The catalogue of the whole store."""
        found = self._kept.of_groups(
            GroupCatalogue, lambda group: read_catalogue(self._store, group, self._server)
        )
        series = [item for catalogue in found.values() for item in catalogue.series]
        return StoreCatalogue(
            dict(series),
            {group: catalogue.runs for group, catalogue in found.items()},
            {group: catalogue.machines for group, catalogue in found.items()},
        )

    @cached_property
    def summaries(self) -> Sequence[GroupSummary]:
        """The summary of each kind of machine; all points of a kind are read if it has new results."""
        found = self._kept.of_groups(GroupSummary, self._summary)
        return list(found.values())

    @property
    def unjudged(self) -> Sequence[SeriesGroup]:
        """The kinds of machines with results that were not judged yet, if judgments can be kept."""
        return self._kept.outdated(GroupSummary)

    def _summary(self, group: SeriesGroup) -> GroupSummary:
        return summary_of_group(self.catalogue, group, self._read_whole(group).points, self._policy)

    @cached_property
    def _kept(self) -> KeptFacts:
        return KeptFacts(self._store, f"{self._server} {self._policy}")

    @cached_property
    def _culprits(self) -> Sequence[ProvenCulprit]:
        return proven_culprits(bisections_of_store(self._store), self._tracker)

    def index(self) -> object:
        """Return ``index.json``."""
        commits = (run.commit for runs in self.catalogue.runs.values() for run in runs)
        return index_document(self.catalogue, self._comparisons(), commit_subjects(self._store, commits))

    def overview(self) -> object:
        """Return ``overview.json``."""
        return overview_document(self.summaries, self._culprits)

    def regressions(self) -> object:
        """Return ``regressions.json``."""
        return regressions_document(self.summaries, self._culprits)

    def _series(self, series_id: str, year: int) -> object:
        series = self.catalogue.by_id.get(series_id)
        if series is None:
            raise UnknownDocumentError
        span = self.catalogue.series[series]
        if not year_of(span.first) <= year <= year_of(span.last):
            raise UnknownDocumentError
        row = self._points_of(series)
        runs = self.catalogue.runs[series.group]
        return series_document(series, row, runs, year, self._policy, self._culprits)

    def _run(self, run_id: str) -> object:
        run = self._found(run_id)
        previous = self.catalogue.before(run)
        runs = (run, previous) if previous else (run,)
        return run_document(run, previous, self._points_of_runs(*runs), self.catalogue.numbers)

    def _compare(self, base_id: str, head_id: str) -> object:
        base, head = self._found(base_id), self._found(head_id)
        if base.group != head.group:
            raise UnknownDocumentError
        past = self._past(min(base, head, key=lambda run: run.time))
        points = self._points_of_runs(base, head)
        return compare_document(base, head, points, past, self._policy, self.catalogue.numbers)

    def _past(self, run: RunFacts) -> Mapping[Series, PastValues]:
        """Return the newest values of each series on the branch of a run, up to that run."""
        if self._whole.group == run.group:
            return self._whole.past(run)
        runs = self.catalogue.runs[run.group]
        begun = [
            one.time
            for one in runs
            if (not run.branch or one.branch in ("", run.branch)) and one.time <= run.time
        ]
        return past_of_store(
            self._store,
            run.group,
            {series: span.first for series, span in self.catalogue.by_group[run.group].items()},
            branch=run.branch,
            since=min(begun[:BASELINE]),
            stop=run.end + 1,
            last=BASELINE,
            machines=self.catalogue.machines[run.group],
        )

    def _points_of_runs(self, *runs: RunFacts) -> Points:
        """Return the points of these runs, and possibly of others on their kind of machine."""
        group = runs[0].group
        if self._whole.group != group:
            times = [(run.time, run.end) for run in runs]
            machines = self.catalogue.machines[group]
            return points_of_runs(self._store, group, times, self.catalogue.series, machines)
        found: dict[Series, list[Point]] = defaultdict(list)
        for run in runs:
            for series, row in self._whole.by_run[run.name].items():
                found[series] += row
        return found

    def _found(self, run_id: str) -> RunFacts:
        if run := self.catalogue.run_by_id.get(run_id):
            return run
        raise UnknownDocumentError

    def _comparisons(self) -> list[tuple[str, str]]:
        return [pair for group in self.catalogue.runs for pair in self._comparisons_of(group)]

    def _comparisons_of(self, group: SeriesGroup) -> list[tuple[str, str]]:
        """Return the newest runs of a kind of machine, each with the previous one on its branch, as (base, head)."""
        heads = self.catalogue.runs[group][:COMPARED_RUNS]
        return [(base.id, head.id) for head in heads if (base := self.catalogue.before(head))]

    def _read_whole(self, group: SeriesGroup) -> _WholeGroup:
        """Return all points of a kind of machine; they stay in memory until those of another kind are needed."""
        if self._whole.group != group:
            self._whole = _WholeGroup(group, points_of_store(self._store, [group]))
        return self._whole

    def _points_of(self, series: Series) -> Sequence[Point]:
        """Return all points of a series, from memory if those of its kind of machine are there."""
        if self._whole.group == series.group:
            return self._whole.points[series]
        machines = self.catalogue.machines[series.group]
        return points_of_store(self._store, series=[series], machines=machines)[series]


@dataclass(frozen=True)
class _WholeGroup:
    """All points of a kind of machine in memory."""

    group: SeriesGroup | None
    points: Points

    @cached_property
    def by_run(self) -> Mapping[str, Mapping[Series, list[Point]]]:
        """The points by the name of their run."""
        found: dict[str, dict[Series, list[Point]]] = defaultdict(lambda: defaultdict(list))
        for series, row in self.points.items():
            for point in row:
                found[point.run][series].append(point)
        return found

    def past(self, run: RunFacts) -> Mapping[Series, PastValues]:
        """Return the newest values of each series on the branch of a run, up to that run."""
        found = {
            series: [
                point
                for point in row[: bisect_right(row, run.end, key=lambda point: point.timestamp)]
                if not run.branch or point.branch in ("", run.branch)
            ]
            for series, row in self.points.items()
        }
        return {series: past_of_points(row[-BASELINE:]) for series, row in found.items() if row}


_WHOLE = {
    "index.json": Documents.index,
    "overview.json": Documents.overview,
    "regressions.json": Documents.regressions,
}
