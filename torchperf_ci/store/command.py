"""The commands ``torchperf ingest`` and ``torchperf query``, and the query that the dashboard's server runs, too."""

from __future__ import annotations

import datetime
import os
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from torchperf_ci import actions
from torchperf_ci.config import Config, find_config
from torchperf_ci.console import is_terminal, print_document, print_table, say
from torchperf_ci.document import Column, Document, Note, Table, counted, text_of
from torchperf_ci.errors import RecordsError, RecordsRefusedError, UsageError
from torchperf_ci.markdown import to_markdown
from torchperf_ci.places import REMOTE_FORMS, is_remote, open_place
from torchperf_ci.records.files import NO_RECORD
from torchperf_ci.records.schema import LATEST_SECOND
from torchperf_ci.store.dsn import StoreServer, parse_dsn
from torchperf_ci.store.ingest import IngestOutcome, ingest_file, ingest_place
from torchperf_ci.store.judged_files import add_commits
from torchperf_ci.store.migrations import open_existing, open_store, place_access, refresh

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from torchperf_ci.options.storage_commands import IngestOptions, QueryOptions
    from torchperf_ci.store.client import AnswerLimits, Store


FORMATS: Mapping[str, str] = {
    "table": "JSONEachRow",
    "json": "JSONEachRow",
    "jsoneachrow": "JSONEachRow",
    "csv": "CSVWithNames",
    "parquet": "Parquet",
}
"""Output formats by the user's name for them, with the format that the engine is parameters for."""


_SHORT = 30 * 86_400
"""Periods up to this many seconds are read from the results, ordered by time, instead of series by series."""


@dataclass(frozen=True)
class StoreQuery:
    """Which points to return; an empty value does not filter.

    ``start`` ≤ t < ``stop`` in Unix seconds, 0 for no limit. ``device`` and the names must be equal, ``arch`` may be
    any part of the architecture, ``commit`` a prefix; ``branch`` matches with and without ``refs/heads/``.
    """

    repo: str = ""
    benchmark: str = ""
    start: int = 0
    stop: int = 0
    models: Sequence[str] = ()
    metrics: Sequence[str] = ()
    device: str = ""
    arch: str = ""
    branch: str = ""
    commit: str = ""


def run_query(
    store: Store, query: StoreQuery, form: str = "jsoneachrow", limits: AnswerLimits | None = None
) -> Iterator[bytes]:
    """Return the points, oldest first, in one of :data:`FORMATS` (``table`` as JSONEachRow), piece by piece.

    Raises :class:`StoreUnreachableError`, :class:`StoreError`, or, beyond ``limits``, :class:`UsageError`.
    """
    lists = {"models": list(query.models), "metrics": list(query.metrics)}
    is_short = 0 < query.stop - query.start <= _SHORT
    by_time = not query.models and (is_short or not query.metrics)
    sql = store.statement("series", by_time=by_time)
    parameters = asdict(query) | lists | {"by_time": by_time or not store.has_values}
    pieces = store.stream(sql, parameters, FORMATS[form], limits)
    return _as_json_list(pieces) if form == "json" else pieces


def _as_json_list(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Join lines of JSON into one JSON list; the engine's own list format starts anew with each of its blocks."""
    rest, before = b"", b"[\n"
    for piece in pieces:
        *lines, rest = (rest + piece).split(b"\n")
        if lines:
            yield before + b",\n".join(lines)
            before = b",\n"
    yield b"[]\n" if before == b"[\n" else b"\n]\n"


_FIELDS = ("benchmark", "model", "mode", "dtype", "backend", "device", "arch", "metric")
_COLUMNS = (*map(Column, ("date", "commit", *_FIELDS)), Column("value", "number"))


def ingest_command(options: IngestOptions) -> int:
    """Ingest every source. Raises :class:`RecordsRefusedError` if not all of their records are kept."""
    config = find_config(options.config)
    dsn = options.store or config.store
    if not (options.src or options.git) and isinstance(parse_dsn(dsn), StoreServer):
        return _ingest_nothing(dsn)
    sources = options.src or ([] if options.git else [_uploaded(config)])
    with open_store(dsn) as store:
        outcomes = [
            (source, _ingest(store, source, config.upload.role, options.format or "")) for source in sources
        ]
        if options.git:
            say(
                f"{counted(add_commits(store, Path(options.git)), 'commit')} of {options.git} stored in {store.name}"
            )
        if not store.embedded:
            refresh(store)
        name = store.name
    _report_ingested(sum((outcome for _, outcome in outcomes), IngestOutcome()), name)
    for source in (source for source, outcome in outcomes if outcome.is_empty and not outcome.judged):
        may_be_new = not options.src or is_remote(source)
        _report_missing(source, options.if_no_files_found or ("warn" if may_be_new else "error"))
    return 0


def _ingest_nothing(dsn: str) -> int:
    """Bring the tables of a server that fills itself up to date, because nobody else does."""
    with open_existing(dsn) as store:
        if store.has_values:
            refresh(store)
        say(f"{store.name} is a server, which records reach by themselves: nothing is ingested")
    return 0


def query_command(options: QueryOptions) -> int:
    """Print the requested points."""
    query = StoreQuery(**{name: value for name in vars(StoreQuery()) if (value := vars(options)[name])})
    if query.stop and query.start >= query.stop:
        raise UsageError("--stop is not after --start: there is no time between them")
    with open_existing(options.store or find_config(options.config).store) as store:
        try:
            _print_points(store, query, options.format)
        except BrokenPipeError:  # the reader, such as head, has stopped reading
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def _print_points(store: Store, query: StoreQuery, form: str) -> None:
    pieces = run_query(store, query, form)
    if form == "table":
        _print_table(_points(pieces))
    else:
        sys.stdout.buffer.writelines(_inert(pieces) if FORMATS[form] == "JSONEachRow" else pieces)
    sys.stdout.flush()


def _inert(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the lines of JSON in ``pieces``, in which a runner finds no workflow command."""
    rest = b""
    for piece in pieces:
        lines, end, rest = (rest + piece).rpartition(b"\n")
        text = (lines + end).decode("utf-8", "surrogateescape")  # names are not always UTF-8
        yield actions.inert_json(text).encode("utf-8", "surrogateescape")
    yield rest


def _uploaded(config: Config) -> str:
    """Return the configured destination of uploads. Raises :class:`UsageError` if there is none."""
    if config.upload.destination:
        return config.upload.destination
    msg = f"say what to ingest: a directory, a file, {REMOTE_FORMS}; or name it as `upload` in torchperf.yml"
    raise UsageError(msg)


def _ingest(store: Store, source: str, role: str | None, format_name: str) -> IngestOutcome:
    """Ingest one source. A directory is identified by its real path, which does not depend on where one runs this."""
    if is_remote(source):
        return ingest_place(store, open_place(source, place_access(role)), format_name)
    path = Path(source).resolve()
    if not path.exists():
        return IngestOutcome()
    return (
        ingest_file(store, path, format_name)
        if path.is_file()
        else ingest_place(store, open_place(str(path)), format_name)
    )


def _report_missing(source: str, how: str) -> None:
    """Report that a source has nothing to ingest. Raises :class:`RecordsError` if ``how`` is "error"."""
    is_gone = not is_remote(source) and not Path(source).exists()
    why = "there is no such directory or file" if is_gone else NO_RECORD
    text = f"{source}: {why}, so nothing is ingested"
    if how == "error":
        raise RecordsError(text)
    say(text)
    if how == "warn":
        actions.annotate([actions.Annotation("warning", text, title="torchperf ingest")])


def _report_ingested(outcome: IngestOutcome, store: str) -> None:
    """Report what was ingested. Raises :class:`RecordsRefusedError` if anything was not."""
    counts = (
        f"{counted(outcome.records, 'record')} of {counted(outcome.objects, 'object')} ingested into {store}; "
        f"{counted(outcome.known, 'object')} already there"
    )
    judged = f"{counted(outcome.judged, 'file')} of verdicts or culprits kept, too"
    untimed = (
        f"{counted(outcome.untimed, 'record')} without a time, ordered by the names of the folders: "
        f"`torchperf upload DIR --to {store}` would have added the time"
    )
    ahead = (
        f"{counted(outcome.ahead, 'record')} dated in the future, the newest of the machine until then: "
        "see the clock there, and that times are in seconds"
    )
    notes = ((outcome.judged, judged), (outcome.untimed, untimed), (outcome.ahead, ahead))
    if outcome == IngestOutcome():
        return
    say(counts, *(text for count, text in notes if count))
    complaints = [
        f"{key}: other content is kept under this key; it was left as it is: {_way_out(key, store)}"
        for key in outcome.conflicts
    ]
    complaints += [f"{item.file}:{item.line}: {'; '.join(item.reasons)}" for item in outcome.refused]
    if not complaints:
        return
    document = Document(f"❌ Ingest: {counts}", [Note(complaints)])
    print_document(document, sys.stderr, rest="left out here")
    actions.append_summary(to_markdown(document))
    actions.annotate(actions.Annotation("warning", text, title="torchperf ingest") for text in complaints)
    refused = f"{counted(len(outcome.refused), 'element')} refused, to be seen in the table torchperf_refused"
    in_conflict = f"{counted(len(outcome.conflicts), 'object')} in conflict with what is kept"
    failures = [text for some, text in ((outcome.refused, refused), (outcome.conflicts, in_conflict)) if some]
    raise RecordsRefusedError("; ".join([*failures, "everything else is kept"]))


def _way_out(key: str, store: str) -> str:
    """Return what to do about a conflict. Runs share names in directories; elsewhere somebody changed an object."""
    if Path(key).is_absolute():
        return f"give each run a directory of its own, or `torchperf upload DIR --to {store}`"
    return (
        "restore it there, or delete what the store has of it, the rows with its _meta.key, to take it anew"
    )


@dataclass(frozen=True)
class QueriedPoint:
    """The columns of a point that the table shows."""

    timestamp: int
    commit: str
    benchmark: str
    model: str
    mode: str
    dtype: str
    backend: str
    device: str
    arch: str
    metric: str
    value: float | None


def _points(pieces: Iterable[bytes]) -> Iterator[QueriedPoint]:
    """Parse points from JSON, one point per line."""
    import msgspec

    rest = b""
    for piece in pieces:
        *lines, rest = (rest + piece).split(b"\n")
        # names are not always UTF-8
        texts = (line.decode(errors="replace") for line in lines)
        yield from (msgspec.json.decode(text, type=QueriedPoint, strict=False) for text in texts)


def _print_table(points: Iterable[QueriedPoint]) -> None:
    """Print one row per point; if stdout is not a terminal, on one line each, so that programs can cut and sort."""
    table = points_table(points)
    rows = [[*map(text_of, row)] for row in table.rows]
    if is_terminal(sys.stdout):
        print_table(table.columns, rows, sys.stdout)
    elif rows:
        sys.stdout.writelines(f"{line}\n" for line in plain_lines(table.columns, rows))
    say(counted(len(rows), "point") if rows else "0 points; names such as 'latency(ms)' must be whole")


def plain_lines(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield the lines of the table as :func:`print_table` lays it out, which takes milliseconds per row."""
    from rich.cells import cell_len

    padded = []
    for column, cells in zip(columns, zip(*rows, strict=True), strict=True):
        texts = [column.head, *map(actions.one_line, cells)]
        width = max(map(cell_len, texts))
        pads = [" " * (width - cell_len(text)) for text in texts]
        if any(texts[1:]):
            sides = (
                zip(pads, texts, strict=True) if column.kind == "number" else zip(texts, pads, strict=True)
            )
            padded.append([*map("".join, sides)])
    return map("  ".join, zip(*padded, strict=True))


def points_table(points: Iterable[QueriedPoint]) -> Table:
    """Return a table with one row per point."""
    return Table(_COLUMNS, [tuple(_cells(point)) for point in points])


def _cells(point: QueriedPoint) -> Iterator[str]:
    when = datetime.datetime.fromtimestamp(min(point.timestamp, LATEST_SECOND), datetime.timezone.utc)
    yield f"{when:%Y-%m-%d %H:%M}" if point.timestamp else "–"
    yield point.commit[:10]
    yield from (getattr(point, name) for name in _FIELDS)
    yield "–" if point.value is None else f"{point.value:.6g}"
