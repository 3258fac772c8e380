"""The JSON documents of a store by path. They depend on the contents of the store only, byte for byte.

The paths are ``index.json``, ``overview.json``, ``regressions.json``, ``series/ID/YEAR.json``, ``run/ID.json`` and
``compare/BASE/HEAD.json``. All statistics are computed here, by the modules that judge changes; the browser only
filters and draws. What is computed for a kind of machine is cached in the store until the machine has new results.
"""

from __future__ import annotations

import gc
import hashlib
import json
import os
import re
from contextlib import suppress
from functools import cache, cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from torchperf_ci.console import say
from torchperf_ci.errors import TorchperfError
from torchperf_ci.github import github_server
from torchperf_ci.series.from_store import measured_between, points_of_runs, points_of_store
from torchperf_ci.series.outcomes import results_of_runs
from torchperf_ci.series.past_values import past_of_store
from torchperf_ci.series.points import Points, RunResults, Series, SeriesGroup
from torchperf_ci.stats.past import BASELINE
from torchperf_ci.store.client import RefusedStatementError, Store
from torchperf_ci.store.judged_files import commit_subjects
from torchperf_ci.web import overview
from torchperf_ci.web.catalogue import GroupCatalogue, RunEntry, read_catalogue
from torchperf_ci.web.changes import Entry, proven_culprits
from torchperf_ci.web.result_documents import RunDocument, compare_document, run_document, series_document

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from torchperf_ci.config import Config


class UnknownDocumentError(TorchperfError):
    """There is no document with this path, or no series or run that it names."""

    def __init__(self) -> None:
        super().__init__("there is no such document; index.json lists what there is")


class Documents:
    """The documents of an open store.

    Data that several of them need is read once, so create a new instance when the store changes.
    """

    def __init__(self, store: Store, config: Config) -> None:
        """Take the policy and the issue tracker from the project's configuration.

        From then on garbage is collected rarely: documents have no cycles, and searching all points for some is slow.
        """
        gc.set_threshold(100_000, 50, 100)
        self._store, self._policy = store, config.policy
        self._server = github_server(os.environ)
        self._tracker = f"{self._server}/{config.issues.repo}" if config.issues.repo else ""
        self._cache = GroupCache(store, f"{self._server} {self._policy}")
        self._points: Points = {}
        self._results: dict[SeriesGroup, RunResults] = {}

    def document(self, path: str) -> bytes:
        """Return the document of a path as JSON. Raises :class:`UnknownDocumentError`, or what reading raises."""
        for pattern, make in _PATHS.items():
            if match := re.fullmatch(pattern, path):
                return as_json(make(self, *match.groups()))
        raise UnknownDocumentError

    def everything(self) -> Iterator[tuple[str, bytes]]:
        """Yield all documents with their paths; the points of all series of a kind of machine are read at once."""
        for path in ("index.json", "overview.json", "regressions.json"):
            yield path, self.document(path)
        for group, known in self.groups.items():
            points = points_of_store(self._store, [group])
            self._points = {series: row for series, row in points.items() if series in known.spans}
            self._results = {group: results_of_runs(self._points)}
            paths = (
                *(f"series/{series.id}/{year}.json" for series, span in known.series for year in span.years),
                *(f"run/{run.id}.json" for run in known.runs),
                *(f"compare/{base}/{head}.json" for base, head in known.comparisons),
            )
            for path in paths:
                yield path, self.document(path)

    @cached_property
    def groups(self) -> Mapping[SeriesGroup, GroupCatalogue]:
        """The catalogue of each kind of machine."""
        read = partial(read_catalogue, self._store, server=self._server)
        return self._cache.values(GroupCatalogue, read)

    @cached_property
    def _series_by_id(self) -> Mapping[str, Series]:
        return {series.id: series for group in self.groups.values() for series, _ in group.series}

    @cached_property
    def _run_by_id(self) -> Mapping[str, RunEntry]:
        return {run.id: run for group in self.groups.values() for run in group.runs}

    @cached_property
    def summaries(self) -> Sequence[overview.GroupSummary]:
        """The summary of each kind of machine; all points of a kind are read if it has new results."""
        return [*self._cache.values(overview.GroupSummary, self._summary).values()]

    def _summary(self, group: SeriesGroup) -> overview.GroupSummary:
        say(f"judging what {group.machine} measured for {group.benchmark}")
        points, known = points_of_store(self._store, [group]), self.groups[group]
        newest = self._run_document(known.newest, results_of_runs(points))
        return overview.summary_of_group(known, points, self._policy, newest)

    @cached_property
    def _culprits(self) -> Sequence[Entry]:
        return proven_culprits(self._store, self._tracker)

    def index(self) -> object:
        """Return ``index.json``."""
        commits = (run.commit for run in self._run_by_id.values())
        return overview.index_document([*self.groups.values()], commit_subjects(self._store, commits))

    def overview(self) -> object:
        """Return ``overview.json``."""
        return overview.overview_document(self.summaries, self._culprits)

    def regressions(self) -> object:
        """Return ``regressions.json``."""
        return overview.regressions_document(self.summaries, self._culprits)

    def series(self, series_id: str, year: str) -> object:
        """Return ``series/ID/YEAR.json``."""
        series = self._series_by_id.get(series_id)
        if not series or int(year) not in self.groups[series.group].spans[series].years:
            raise UnknownDocumentError
        group, points = self.groups[series.group], self._points
        if series not in points:
            points = points_of_store(self._store, series=[series], machines=group.machines)
        return series_document(series, points[series], group, int(year), self._policy, self._culprits)

    def run(self, run_id: str) -> object:
        """Return ``run/ID.json``."""
        run = self._run_entry(run_id)
        return self._run_document(run, self._results_of_runs(run, *self.groups[run.group].recent(run, 1)))

    def _run_document(self, run: RunEntry, results: RunResults) -> RunDocument:
        known = self.groups[run.group]
        recent = known.recent(run)
        previous, oldest = (recent[0], recent[-1]) if recent else (None, run)
        recent_cases, tried = (self._cases(run, start) for start in (oldest.time, known.begun(run)))
        return run_document(run, previous, results, recent_cases, tried, known.series_places)

    def _cases(self, run: RunEntry, start: int) -> set[Series]:
        """Return the cases that were measured on a run's branch from ``start`` until it began."""
        if start == run.time:
            return set()
        measured = measured_between(self._store, run.group, run.branch, start, run.time)
        return {series.case for series_id in measured if (series := self._series_by_id.get(series_id))}

    def comparison(self, base_id: str, head_id: str) -> object:
        """Return ``compare/BASE/HEAD.json``."""
        base, head = self._run_entry(base_id), self._run_entry(head_id)
        if base.group != head.group:
            raise UnknownDocumentError
        older, known = min(base, head, key=lambda run: run.time), self.groups[base.group]
        results = self._results_of_runs(base, head)
        cases = {series.case for run in (base, head) for series in results.get(run.name, ())}
        past = past_of_store(
            self._store,
            base.group,
            {series: span.first for series, span in known.series if series.case in cases},
            branch=older.branch,
            since=[older, *known.recent(older, BASELINE - 1)][-1].time,
            stop=older.period[1] + 1,
            machines=known.machines,
        )
        return compare_document(base, head, results, past, self._policy)

    def _run_entry(self, run_id: str) -> RunEntry:
        if run := self._run_by_id.get(run_id):
            return run
        raise UnknownDocumentError

    def _results_of_runs(self, *runs: RunEntry) -> RunResults:
        """Return the results of one or two runs, and possibly of others, on their kind of machine."""
        group = runs[0].group
        if group in self._results:
            return self._results[group]
        periods, machines = [run.period for run in runs], self.groups[group].machines
        return results_of_runs(points_of_runs(self._store, group, periods, self._series_by_id, machines))


_ID = "([0-9a-f]{10})"
_PATHS: Mapping[str, Callable[..., object]] = {
    r"index\.json": Documents.index,
    r"overview\.json": Documents.overview,
    r"regressions\.json": Documents.regressions,
    rf"series/{_ID}/([0-9]{{4}})\.json": Documents.series,
    rf"run/{_ID}\.json": Documents.run,
    rf"compare/{_ID}/{_ID}\.json": Documents.comparison,
}
"""What makes the document of a path, by the path's pattern; the groups of the pattern are the arguments."""


def is_document(path: str) -> bool:
    """Whether a document can have this path."""
    return any(re.fullmatch(pattern, path) for pattern in _PATHS)


T = TypeVar("T")
_PACKAGE = Path(__file__).parents[1]


class GroupCache:
    """A cache, in an open store, of values computed for each kind of machine.

    ``inputs`` identifies everything that they depend on besides the results and the code. Kinds of machines without
    results when it is first used are left out, because values may depend on others that were read then.
    """

    def __init__(self, store: Store, inputs: str) -> None:
        self._store, self._inputs = store, inputs

    def values(self, value_type: type[T], compute: Callable[[SeriesGroup], T]) -> Mapping[SeriesGroup, T]:
        """Return the value of each kind of machine, a ``value_type``, from the cache or else computed and cached.

        Raises what reading the store raises.
        """
        import msgspec

        values: dict[SeriesGroup, T] = {}
        query, kind = "cached_values" if self._store.has_values else "group_states", value_type.__name__
        for group, made_of, text in self._listed(query, kind):
            if group not in self._states:
                continue
            values[group] = msgspec.json.decode(text, type=value_type) if text else compute(group)
            if self._store.has_values and not text and made_of == self._states[group]:
                made = as_json(values[group]).decode()
                row = {"kind": kind, **group._asdict(), "made_of": made_of, "text": made}
                # A user who may only read computes the values each time.
                with suppress(RefusedStatementError):
                    self._store.insert("torchperf_kept", list(row), as_json(row))
        return values

    @cached_property
    def _states(self) -> Mapping[SeriesGroup, str]:
        """What the values of each kind of machine are made of when this is first used."""
        return {group: made_of for group, made_of, _ in self._listed("group_states")}

    def _listed(self, query: str, kind: str = "") -> Iterator[tuple[SeriesGroup, str, str]]:
        """Yield each kind of machine, what its value is made of, and the value as JSON, empty where none is cached."""
        inputs = hashlib.sha256(f"{_code_digest()} {self._inputs}".encode()).hexdigest()
        rows = self._store.rows(self._store.statement(query), {"kind": kind, "inputs": inputs})
        return ((SeriesGroup(*names), made_of, text) for *names, made_of, text in rows)


@cache
def _code_digest() -> str:
    """Return a digest of the code, because another version may compute other values."""
    files = (file for file in sorted(_PACKAGE.rglob("*.*")) if file.suffix in (".py", ".sql"))
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


def as_json(document: object) -> bytes:
    """Return compact JSON, always the same bytes for the same document."""
    text = json.dumps(document, default=vars, separators=(",", ":"), allow_nan=False)
    return text.encode()
