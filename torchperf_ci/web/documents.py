"""The documents of a store by their paths: a pure function of what the store holds, byte for byte.

``index.json``, ``overview.json``, ``regressions.json``, ``series/ID/YEAR.json``, ``run/ID.json`` and
``compare/BASE/HEAD.json``. All statistics are made here, by the modules that judge; a browser filters and draws.
"""

from __future__ import annotations

import os
import re
from collections import defaultdict
from functools import cached_property
from typing import TYPE_CHECKING

from torchperf_ci.errors import TorchperfError
from torchperf_ci.github import GITHUB, github_server
from torchperf_ci.series.from_store import points_of_store
from torchperf_ci.stats.past import BASELINE
from torchperf_ci.web.catalogue import (
    GroupCatalogue,
    StoreCatalogue,
    read_catalogue,
)
from torchperf_ci.web.kept_facts import KeptFacts, as_json
from torchperf_ci.web.known_culprits import bisections_of_store, culprit_entries
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
    from torchperf_ci.web.known_culprits import CulpritEntry


COMPARED_RUNS = 30
"""So many of the newest runs of a kind of machine are compared with the one before each on a static site."""
_SERIES = re.compile(r"series/([0-9a-f]{10})/([0-9]{4})\.json")
_RUN = re.compile(r"run/([0-9a-f]{10})\.json")
_COMPARE = re.compile(r"compare/([0-9a-f]{10})/([0-9a-f]{10})\.json")


def documents_of_store(store: Store, settings: config.Config) -> Documents:
    """As the project's file says when a change matters, and where its issues are."""
    server = github_server(os.environ)
    tracker = f"{server}/{settings.issues.repo}" if settings.issues.repo else ""
    return Documents(store, settings.policy, server, tracker)


class UnknownDocumentError(TorchperfError):
    """There is no document of this path."""


class _MissingError(Exception):
    """What a path names is not there."""


class Documents:
    """The documents of an open store. What several of them need is read once; make a new one when the store changes."""

    def __init__(
        self, store: Store, policy: Mapping[str, config.Rule], server: str = GITHUB, tracker: str = ""
    ) -> None:
        """``tracker`` is the page of the repository that has the issues, if it is not the one that was bisected."""
        self._store, self._policy, self._server, self._tracker = store, policy, server, tracker
        self._newest_read: tuple[SeriesGroup | None, Points] = (None, {})

    def document(self, path: str) -> bytes:
        """The document of a path, as JSON. Raises :class:`UnknownDocumentError`, or what reading the store raises."""
        try:
            return as_json(self._made(path))
        except _MissingError:
            msg = f"{path}: there is no such document; index.json lists what there is"
            raise UnknownDocumentError(msg) from None

    def _made(self, path: str) -> object:
        if path in _WHOLE:
            return _WHOLE[path](self)
        if match := _SERIES.fullmatch(path):
            return self._series(match[1], int(match[2]))
        if match := _RUN.fullmatch(path):
            return self._run(match[1])
        if match := _COMPARE.fullmatch(path):
            return self._compare(match[1], match[2])
        raise _MissingError

    def paths(self) -> Iterator[str]:
        """The paths of all documents; of comparisons those that the index names."""
        yield from _WHOLE
        for series, span in sorted(self.catalogue.series.items(), key=lambda item: (item[0].group, item[0])):
            years = range(year_of(span.first), year_of(span.last) + 1)
            yield from (f"series/{series.id}/{year}.json" for year in years)
        yield from (f"run/{run}.json" for run in self.catalogue.run_by_id)
        yield from (f"compare/{base}/{head}.json" for base, head in self._comparisons())

    def everything(self) -> Iterator[tuple[str, bytes]]:
        """All documents with their paths; the points of a kind of machine are read once."""
        for path in self.paths():
            if match := _SERIES.fullmatch(path):
                self._points(self.catalogue.by_id[match[1]].group)
            yield path, self.document(path)

    @cached_property
    def catalogue(self) -> StoreCatalogue:
        """What there is."""
        found = self._kept.of_groups(
            GroupCatalogue, lambda group: read_catalogue(self._store, group, self._server)
        )
        series = [item for catalogue in found.values() for item in catalogue.series]
        return StoreCatalogue(dict(series), {group: catalogue.runs for group, catalogue in found.items()})

    @cached_property
    def summaries(self) -> Sequence[GroupSummary]:
        """What stands where, one for each kind of machine: all its points are read where something came in."""
        found = self._kept.of_groups(GroupSummary, self._summary)
        return list(found.values())

    def _summary(self, group: SeriesGroup) -> GroupSummary:
        points = points_of_store(self._store, [group])
        return summary_of_group(self.catalogue, group, points, self._policy)

    @cached_property
    def _kept(self) -> KeptFacts:
        return KeptFacts(self._store, f"{self._server} {self._policy}")

    @cached_property
    def _culprits(self) -> Sequence[CulpritEntry]:
        return culprit_entries(bisections_of_store(self._store), self._tracker)

    def index(self) -> object:
        """``index.json``."""
        return index_document(self.catalogue, self._comparisons())

    def overview(self) -> object:
        """``overview.json``."""
        return overview_document(self.summaries, self._culprits)

    def regressions(self) -> object:
        """``regressions.json``."""
        return regressions_document(self.summaries, self._culprits)

    def _series(self, series_id: str, year: int) -> object:
        series = self.catalogue.by_id.get(series_id)
        if series is None:
            raise _MissingError
        span = self.catalogue.series[series]
        if not year_of(span.first) <= year <= year_of(span.last):
            raise _MissingError
        row = self._points_of(series)
        runs = self.catalogue.runs[series.group]
        return series_document(series, row, runs, year, self._policy, self._culprits)

    def _run(self, run_id: str) -> object:
        run = self._found(run_id)
        previous = self.catalogue.before(run)
        runs = (run, previous) if previous else (run,)
        return run_document(run, previous, self._points_of_runs(*runs))

    def _compare(self, base_id: str, head_id: str) -> object:
        base, head = self._found(base_id), self._found(head_id)
        if base.group != head.group:
            raise _MissingError
        older = min(base, head, key=lambda run: run.time)
        past = points_of_store(
            self._store, [base.group], branch=older.branch, stop=older.end + 1, last=BASELINE
        )
        return compare_document(base, head, self._points_of_runs(base, head), past, self._policy)

    def _points_of_runs(self, *runs: RunFacts) -> Points:
        """What was measured while these runs were, on their kind of machine."""
        found: dict[Series, list[Point]] = defaultdict(list)
        for run in runs:
            points = points_of_store(self._store, [run.group], since=run.time, stop=run.end + 1)
            for series, row in points.items():
                found[series] += row
        return found

    def _found(self, run_id: str) -> RunFacts:
        if run := self.catalogue.run_by_id.get(run_id):
            return run
        raise _MissingError

    def _comparisons(self) -> list[tuple[str, str]]:
        """The newest runs of each kind of machine, each with the one before it on its branch."""
        heads = [head for runs in self.catalogue.runs.values() for head in runs[:COMPARED_RUNS]]
        return [(base.id, head.id) for head in heads if (base := self.catalogue.before(head))]

    def _points(self, group: SeriesGroup) -> Points:
        """All points of a kind of machine."""
        if self._newest_read[0] != group:
            self._newest_read = (group, points_of_store(self._store, [group]))
        return self._newest_read[1]

    def _points_of(self, series: Series) -> Sequence[Point]:
        """All points of a series; nothing is read where those of its kind of machine are at hand."""
        if self._newest_read[0] == series.group:
            return self._newest_read[1][series]
        return points_of_store(self._store, series=[series])[series]


_WHOLE = {
    "index.json": Documents.index,
    "overview.json": Documents.overview,
    "regressions.json": Documents.regressions,
}
