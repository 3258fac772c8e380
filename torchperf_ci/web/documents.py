"""The JSON documents of a store by path. They depend on the contents of the store only, byte for byte.

The paths are ``index.json``, ``overview.json``, ``regressions.json``, ``series/ID/YEAR.json``, ``run/ID.json`` and
``compare/BASE/HEAD.json``. All statistics are computed here, by the modules that judge changes; the browser only
filters and draws.
"""

from __future__ import annotations

import gc
import os
import re
from functools import cached_property, partial
from typing import TYPE_CHECKING

from torchperf_ci.errors import TorchperfError
from torchperf_ci.github import GITHUB, github_server
from torchperf_ci.series.from_store import measured_between, points_of_runs, points_of_store
from torchperf_ci.series.past_values import past_of_store
from torchperf_ci.stats.past import BASELINE
from torchperf_ci.store.judged_files import commit_subjects
from torchperf_ci.web.catalogue import GroupCatalogue, StoreCatalogue, read_catalogue
from torchperf_ci.web.changes import ProvenCulprit, bisections_of_store, proven_culprits
from torchperf_ci.web.group_cache import GroupCache, as_json
from torchperf_ci.web.overview import (
    GroupSummary,
    index_document,
    overview_document,
    regressions_document,
    summary_of_group,
)
from torchperf_ci.web.result_documents import (
    RunState,
    compare_document,
    run_document,
    run_state,
    series_document,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from torchperf_ci.config import Config, Rule
    from torchperf_ci.series.past_values import PastValues
    from torchperf_ci.series.points import Point, Points, Series, SeriesGroup
    from torchperf_ci.store.client import Store
    from torchperf_ci.web.catalogue import RunEntry


COMPARED_RUNS = 30
"""Number of newest runs of each kind of machine that a static site compares with the run before."""


def collect_garbage_rarely() -> None:
    """Tune the garbage collector for many documents: they have no cycles, and searching all points for some is slow."""
    gc.set_threshold(100_000, 50, 100)


def documents_of_store(store: Store, config: Config) -> Documents:
    """Return the documents of a store, with the policy and the issue tracker of the project's configuration."""
    server = github_server(os.environ)
    tracker = f"{server}/{config.issues.repo}" if config.issues.repo else ""
    return Documents(store, config.policy, server, tracker)


class UnknownDocumentError(TorchperfError):
    """There is no document with this path, or no series or run that it names."""

    def __init__(self) -> None:
        super().__init__("there is no such document; index.json lists what there is")


class Documents:
    """The documents of an open store.

    Data that several of them need is read once, so create a new instance when the store changes.
    """

    def __init__(
        self, store: Store, policy: Mapping[str, Rule], server: str = GITHUB, tracker: str = ""
    ) -> None:
        """``tracker`` is the URL of the repository that has the issues, if it is not the one that was bisected."""
        self._store, self._policy, self._server, self._tracker = store, policy, server, tracker
        self._points: Points = {}

    def document(self, path: str) -> bytes:
        """Return the document of a path as JSON. Raises :class:`UnknownDocumentError`, or what reading raises."""
        for pattern, make in _PATHS.items():
            if match := re.fullmatch(pattern, path):
                return as_json(make(self, *match.groups()))
        raise UnknownDocumentError

    def everything(self) -> Iterator[tuple[str, bytes]]:
        """Yield all documents with their paths; the points of all series of a kind of machine are read at once."""
        for path in _WHOLE:
            yield path, self.document(path)
        for group in self.catalogue.groups:
            self._points = points_of_store(self._store, [group])
            for path in self._paths_of_group(group):
                yield path, self.document(path)

    def _paths_of_group(self, group: SeriesGroup) -> Iterator[str]:
        for series, span in self.catalogue.groups[group].series:
            yield from (f"series/{series.id}/{year}.json" for year in span.years)
        yield from (f"run/{run.id}.json" for run in self.catalogue.groups[group].runs)
        yield from (f"compare/{base}/{head}.json" for base, head in self._comparisons(group))

    @cached_property
    def catalogue(self) -> StoreCatalogue:
        """The catalogue of the whole store."""
        read = partial(read_catalogue, self._store, server=self._server)
        return StoreCatalogue(self._cache.values(GroupCatalogue, read))

    @cached_property
    def summaries(self) -> Sequence[GroupSummary]:
        """The summary of each kind of machine; all points of a kind are read if it has new results."""
        return [*self._cache.values(GroupSummary, self._summary).values()]

    @property
    def unjudged(self) -> Sequence[SeriesGroup]:
        """The kinds of machines with results that were not judged yet, if their summaries can be cached."""
        return self._cache.outdated(GroupSummary)

    def _summary(self, group: SeriesGroup) -> GroupSummary:
        points = points_of_store(self._store, [group])
        return summary_of_group(self.catalogue, group, points, self._policy, self._state)

    @cached_property
    def _cache(self) -> GroupCache:
        return GroupCache(self._store, f"{self._server} {self._policy}")

    @cached_property
    def _culprits(self) -> Sequence[ProvenCulprit]:
        return proven_culprits(bisections_of_store(self._store), self._tracker)

    def index(self) -> object:
        """Return ``index.json``."""
        commits = (run.commit for run in self.catalogue.run_by_id.values())
        pairs = [pair for group in self.catalogue.groups for pair in self._comparisons(group)]
        return index_document(self.catalogue, pairs, commit_subjects(self._store, commits))

    def overview(self) -> object:
        """Return ``overview.json``."""
        return overview_document(self.summaries, self._culprits)

    def regressions(self) -> object:
        """Return ``regressions.json``."""
        return regressions_document(self.summaries, self._culprits)

    def series(self, series_id: str, year: str) -> object:
        """Return ``series/ID/YEAR.json``."""
        series = self.catalogue.by_id.get(series_id)
        if not series or int(year) not in self.catalogue.series[series].years:
            raise UnknownDocumentError
        group = self.catalogue.groups[series.group]
        return series_document(
            series, self._points_of(series), group, int(year), self._policy, self._culprits
        )

    def run(self, run_id: str) -> object:
        """Return ``run/ID.json``."""
        run = self._found(run_id)
        previous = next(iter(self.catalogue.recent(run)), None)
        points = self._points_of_runs(run, previous or run)
        return run_document(run, previous, self._state(run, points), points)

    def _state(self, run: RunEntry, points: Points) -> RunState:
        """Return the outcomes of a run. ``points`` are its own and the previous run's, and possibly of others."""
        recent = self.catalogue.recent(run)
        start = recent[-1].time if recent else run.time
        measured = measured_between(self._store, run.group, run.branch, start, run.time)
        cases = [series.case for series_id in measured if (series := self.catalogue.by_id.get(series_id))]
        return run_state(run, recent[0] if recent else None, points, cases)

    def comparison(self, base_id: str, head_id: str) -> object:
        """Return ``compare/BASE/HEAD.json``."""
        base, head = self._found(base_id), self._found(head_id)
        if base.group != head.group:
            raise UnknownDocumentError
        past = self._past(min(base, head, key=lambda run: run.time))
        points = self._points_of_runs(base, head)
        return compare_document(base, head, points, past, self._policy)

    def _found(self, run_id: str) -> RunEntry:
        if run := self.catalogue.run_by_id.get(run_id):
            return run
        raise UnknownDocumentError

    def _comparisons(self, group: SeriesGroup) -> list[tuple[str, str]]:
        """Return the newest runs of a kind of machine, each with the previous one on its branch, as (base, head)."""
        heads = self.catalogue.groups[group].runs[:COMPARED_RUNS]
        return [(recent[0].id, head.id) for head in heads if (recent := self.catalogue.recent(head))]

    def _points_of(self, series: Series) -> Sequence[Point]:
        """Return all points of a series."""
        if series in self._points:
            return self._points[series]
        machines = self.catalogue.groups[series.group].machines
        return points_of_store(self._store, series=[series], machines=machines)[series]

    def _points_of_runs(self, run: RunEntry, other: RunEntry) -> Points:
        """Return the points of both runs, and possibly of others on their kind of machine."""
        times = [(compared.time, compared.end) for compared in (run, other)]
        machines = self.catalogue.groups[run.group].machines
        return points_of_runs(self._store, run.group, times, self.catalogue.by_id, machines)

    def _past(self, run: RunEntry) -> Mapping[Series, PastValues]:
        """Return the newest values of each series on the branch of a run, up to that run."""
        known = self.catalogue.groups[run.group]
        begun = [
            earlier.time
            for earlier in known.runs
            if earlier.time <= run.time and (not run.branch or earlier.branch in ("", run.branch))
        ]
        return past_of_store(
            self._store,
            run.group,
            {series: span.first for series, span in known.series},
            branch=run.branch,
            since=min(begun[:BASELINE]),
            stop=run.end + 1,
            last=BASELINE,
            machines=known.machines,
        )


_WHOLE: Mapping[str, Callable[[Documents], object]] = {
    "index.json": Documents.index,
    "overview.json": Documents.overview,
    "regressions.json": Documents.regressions,
}
_ID = "([0-9a-f]{10})"
_PATHS: Mapping[str, Callable[..., object]] = {
    **{re.escape(path): make for path, make in _WHOLE.items()},
    rf"series/{_ID}/([0-9]{{4}})\.json": Documents.series,
    rf"run/{_ID}\.json": Documents.run,
    rf"compare/{_ID}/{_ID}\.json": Documents.comparison,
}
"""What makes the document of a path, by the path's pattern; the groups of the pattern are the arguments."""
