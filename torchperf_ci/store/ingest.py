"""Ingest record objects into the store, each exactly once, despite repeated, concurrent and killed ingests.

The rows of the results are the single source of truth: an object is kept if rows name it, and it is the same object if
all of its rows are equal. The table ``torchperf_ingested`` only avoids reading an object again.
"""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

from torchperf_ci.errors import InvalidObjectError, UnsafeKeyError
from torchperf_ci.imports.other_tools import parse_results
from torchperf_ci.places import is_remote
from torchperf_ci.places.branch import BranchPlace
from torchperf_ci.places.packs import is_pack, month_of_pack
from torchperf_ci.places.place import DirectoryPlace, ListedObject, PlacedObject, check_keys, in_batches
from torchperf_ci.records.files import MAX_BYTES, SUFFIXES
from torchperf_ci.records.reading import RefusedElement, is_torchperf_file, refused_file
from torchperf_ci.records.record import utf8_text
from torchperf_ci.store.client import RefusedStatementError, Store
from torchperf_ci.store.judged_files import add_judged_files
from torchperf_ci.store.loading import S3Reader, StagingTable, UnparsedObject, lines_of_records

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from torchperf_ci.places.place import RecordPlace
    from torchperf_ci.places.s3 import S3Place
    from torchperf_ci.records.reading import LocatedRecord, RecordsReading


@dataclass(frozen=True)
class IngestOutcome:
    """Counts, conflicts and refused elements of an ingest. Outcomes of several batches add up.

    ``conflicts`` are keys under which other content is kept already; the ``file`` of each element in ``refused`` names
    the object that it was in.
    """

    new: tuple[str, ...] = field(default=())
    """Keys of the objects that are new in the store, and of new files of verdicts and culprits."""
    objects: int = 0
    """Objects with records that are new in the store; ``records`` is the number of these."""
    records: int = 0
    known: int = 0
    """Objects that were in the store already, with the same content."""
    conflicts: tuple[str, ...] = field(default=())
    refused: tuple[RefusedElement, ...] = field(default=())
    judged: int = 0
    """Files of verdicts and culprits."""
    untimed: int = 0
    """New records that say neither their time nor their workflow run."""
    ahead: int = 0
    """New records that are dated more than a day ahead."""
    left_out: int = 0
    """Packs of months before the first one that was asked for."""

    @property
    def is_empty(self) -> bool:
        """Whether there was nothing that is, or was meant to be, a record."""
        return replace(self, new=(), judged=0) == IngestOutcome()

    def __add__(self, other: IngestOutcome) -> IngestOutcome:
        return IngestOutcome(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))


BATCH_OBJECTS = 2000
BATCH_BYTES = 16 << 20
"""Most bytes of a batch; compressed records take about fifteen times as much in memory."""
PART_SIZE = 64 << 20
"""Characters of unpacked text after which records are stored, because a batch may unpack to any size."""

# ClickHouse's error codes that are raised for unreadable data only
_DATA = frozenset({6, 26, 27, 33, 38, 41, 53, 69, 70, 72, 117, 130, 131, 190, 349})


def is_records(key: str) -> bool:
    """Whether an object may hold records: it has a suffix of records and is not in a hidden folder."""
    return key.endswith(SUFFIXES) and not any(part.startswith(".") for part in key.split("/"))


def _object(place: DirectoryPlace | S3Place, key: str) -> PlacedObject:
    try:
        return PlacedObject.of(utf8_text(key), place.get(key))
    except InvalidObjectError as error:
        return PlacedObject(utf8_text(key), f"unfit:{error.reason}", b"", error.reason)


def ingest_place(
    store: Store, place: RecordPlace, format_name: str = "", first_month: str = ""
) -> IngestOutcome:
    """Ingest all objects of a place that hold records; torchperf's own files, such as verdicts, do not count as such.

    Results of other tools are records, too; ``format_name`` is the option ``--format``, or empty. Packs of months
    before ``first_month`` (``YYYY-MM``) are left out.

    Raises :class:`PlaceUnreadableError`, :class:`StoreUnreachableError` or :class:`StoreError`; in that case, what was
    ingested before is kept, and the same call continues from there.
    """
    if isinstance(place, BranchPlace):
        return _ingest_branch(store, place, format_name, first_month)
    if isinstance(place, DirectoryPlace):
        objects = (_object(place, key) for key in filter(is_records, place.keys()))
        return _ingest_objects(store, place.name, objects, format_name)
    return _S3Ingester(store, cast("S3Place", place), format_name).run()


def ingest_file(store: Store, path: Path, format_name: str = "") -> IngestOutcome:
    """Ingest one file as an object of its directory."""
    folder = str(path.absolute().parent)
    return _ingest_objects(store, folder, [_object(DirectoryPlace(folder), path.name)], format_name)


def ingest_objects(store: Store, bucket: str, objects: Iterable[tuple[str, bytes]]) -> IngestOutcome:
    """Ingest objects, given as ``(key, body)``; rows name ``bucket`` as theirs. Raises as :func:`ingest_place`."""
    return _ingest_objects(store, bucket, (PlacedObject.of(key, body) for key, body in objects))


def _ingest_objects(
    store: Store, bucket: str, objects: Iterable[PlacedObject], format_name: str = ""
) -> IngestOutcome:
    ingester = _BatchIngester(store, bucket, format_name)
    outcome = IngestOutcome()
    for batch in in_batches(objects, BATCH_BYTES, BATCH_OBJECTS):
        with store.keep_open():
            outcome += ingester.ingest(batch)
    return outcome


def _ingest_branch(store: Store, place: BranchPlace, format_name: str, first_month: str) -> IngestOutcome:
    """Ingest a data branch; fetches only new files and packs, and of a pack reads only files not ingested before."""
    ingester = _BatchIngester(store, place.name, format_name)
    listed = {key: tag for key, tag in place.listed().items() if is_records(key) or is_pack(key)}
    known = set(ingester.known_keys(listed))
    new = [key for key in listed if key not in known]
    packs = [key for key in new if is_pack(key)]
    wanted = [[key] for key in packs if month_of_pack(key) >= first_month]
    outcome = IngestOutcome(known=sum(not is_pack(key) for key in known), left_out=len(packs) - len(wanted))
    for group in ([key for key in new if not is_pack(key)], *wanted):
        part = IngestOutcome()
        for batch in in_batches(place.read(group), BATCH_BYTES, BATCH_OBJECTS):
            with store.keep_open():
                part += ingester.ingest_and_remember(batch)
        if not part.conflicts:  # conflicts are reported again by the next ingest
            ingester.remember({key: listed[key] for key in group if is_pack(key)})
        outcome += part
    return outcome


class _BatchIngester:
    """Ingests batches of objects of one bucket."""

    def __init__(self, store: Store, bucket: str, format_name: str) -> None:
        self._store = store
        self._bucket = utf8_text(bucket)
        self._format_name = format_name
        self._read_as = f" as {format_name}" if format_name else ""  # what was refused before may be read now
        self.incoming = StagingTable(store, self._bucket)
        self._judged: dict[str, str] = {}
        self._up_to_date: set[str] = set()
        """Keys of objects that the store has with the content that they have now."""

    def ingest(self, batch: Sequence[PlacedObject]) -> IngestOutcome:
        """Ingest objects whose bodies are loaded. Lines that look like records are parsed by the engine alone."""
        known = self.known([item.key for item in batch])
        new = [item for item in batch if (item.key, item.tag) not in known]
        self._up_to_date.update(item.key for item in batch if (item.key, item.tag) in known)
        outcome = IngestOutcome(known=len(batch) - len(new))
        for part in in_batches(map(self._unparsed, new), PART_SIZE):
            plain, others = [each for each in part if each.lines], [each for each in part if not each.lines]
            if plain and self._add_unparsed(plain):
                outcome += self.publish({each.item.key: each.item.tag for each in plain}, [])
            else:
                others = part
            outcome += self._parse_and_ingest([each.item for each in others])
        return outcome

    def _unparsed(self, item: PlacedObject) -> UnparsedObject:
        lines = [] if item.unfit or self._format_name else lines_of_records(item.body)
        head = f'{{"_meta":{self._meta(item.key)},' if lines else ""
        return UnparsedObject(item, [head + line.removeprefix("{") for line in lines])

    def _add_unparsed(self, objects: Sequence[UnparsedObject]) -> bool:
        self.incoming.clear()
        return self.incoming.add_unparsed([line.encode() for each in objects for line in each.lines])

    def _parse_and_ingest(self, objects: Sequence[PlacedObject]) -> IngestOutcome:
        outcome = IngestOutcome()
        for part in self._parts(objects):
            self.incoming.clear()
            refused = self._load({item.key: reading for item, reading in part})
            outcome += self.publish({item.key: item.tag for item, _ in part}, refused)
        files, self._judged = self._judged, {}
        count, new = add_judged_files(self._store, self._bucket, files)
        return outcome + IngestOutcome(new=tuple(new), judged=count)

    def ingest_and_remember(self, batch: Sequence[PlacedObject]) -> IngestOutcome:
        """Ingest objects, and also remember those without records, so that they are not fetched again."""
        outcome = self.ingest(batch)
        done = self._up_to_date.union(key.removeprefix(f"{self._bucket}/") for key in outcome.conflicts)
        self.remember({item.key: item.tag for item in batch if item.key not in done})
        return outcome

    def known_keys(self, tags: Mapping[str, str]) -> Iterator[str]:
        """Yield the keys of objects that need not be read again, because they are known with these tags."""
        keys = list(tags)
        for start in range(0, len(keys), BATCH_OBJECTS):
            known = self.known(keys[start : start + BATCH_OBJECTS])
            yield from (key for key, tag in known if tags[key] == tag)

    def _parts(self, objects: Iterable[PlacedObject]) -> Iterator[list[tuple[PlacedObject, RecordsReading]]]:
        """Yield parts of the objects with their contents, sized to fit in memory; objects without any are left out."""
        part: list[tuple[PlacedObject, RecordsReading]] = []
        size = 0
        for item in objects:
            name = f"{self._bucket}/{item.key}"
            reading = refused_file(name, item.unfit) if item.unfit else self._read(item, name)
            if is_torchperf_file(reading):
                self._judged[item.key] = reading.refused[0].text
                continue
            if reading.is_empty:
                continue
            part.append((item, reading))
            size += reading.size
            if size >= PART_SIZE:
                yield part
                part, size = [], 0
        if part:
            yield part

    def _read(self, item: PlacedObject, name: str) -> RecordsReading:
        folder = None if is_remote(name) else Path(name).parent
        return parse_results(item.body, name, self._format_name, folder)

    def known(self, keys: Sequence[str]) -> set[tuple[str, str]]:
        """Return which of the keys are known, each with the tag that its object had."""
        sql = "SELECT key, tag FROM torchperf_ingested WHERE bucket = {bucket:String} AND key IN {keys:Array(String)}"
        return {
            (key, tag.removesuffix(self._read_as))
            for key, tag in self._store.rows(sql, {"bucket": self._bucket, "keys": list(keys)})
            if tag.endswith(self._read_as)
        }

    def _load(self, readings: Mapping[str, RecordsReading]) -> list[tuple[str, RefusedElement]]:
        """Add all valid records of some objects to the incoming ones; return the others, with their objects' keys."""
        refused = [(key, item) for key, reading in readings.items() for item in reading.refused]
        lines = {
            key: [self._line(key, item) for item in reading.records] for key, reading in readings.items()
        }
        try:
            self.incoming.add_lines([line for group in lines.values() for line in group])
        except RefusedStatementError as error:
            if error.code not in _DATA:
                raise
            self.incoming.clear()
            refused += self._load_slowly(readings, lines)
        return refused

    def _load_slowly(
        self, readings: Mapping[str, RecordsReading], lines: Mapping[str, list[bytes]]
    ) -> list[tuple[str, RefusedElement]]:
        """Add records one by one, because the engine refuses one that our own checks accepted."""
        refused, good = [], []
        for key, reading in readings.items():
            for line, item in zip(lines[key], reading.records, strict=True):
                try:
                    self.incoming.add_lines([line])
                    good.append(line)
                except RefusedStatementError as error:
                    refused.append((key, _refused_by_engine(item, error)))
                self.incoming.clear()
        self.incoming.add_lines(good)
        return refused

    def _line(self, key: str, item: LocatedRecord) -> bytes:
        """Return the record's verbatim text with the object that it came from as ``_meta``."""
        meta = self._meta(key)
        if "_meta" in item.record:
            named = {name: value for name, value in item.record.items() if name != "_meta"}
            return json.dumps({**named, "_meta": json.loads(meta)}, ensure_ascii=False).encode()
        members = item.text.removeprefix("{").lstrip()
        return f'{{"_meta":{meta}{"" if members.startswith("}") else ","}{members}'.encode()

    def _meta(self, key: str) -> str:
        return json.dumps({"bucket": self._bucket, "key": key}, ensure_ascii=False)

    def publish(
        self, tags: Mapping[str, str], refused: Sequence[tuple[str, RefusedElement]]
    ) -> IngestOutcome:
        """Move the incoming records into the results, store refused elements, and remember which objects are done.

        The order matters: after a kill in between, the next ingest finds the same rows and does the rest.
        """
        objects = self.incoming.publish()
        new = [item for item in objects if not item.is_stored]
        conflicts = sorted(item.key for item in objects if item.is_stored and not item.is_same)
        settled = tags.keys() - set(conflicts)
        self._insert(
            "torchperf_refused", [_refused_row(key, item) for key, item in refused if key in settled]
        )
        self.remember({key: tags[key] for key in settled})
        return IngestOutcome(
            new=tuple(item.key for item in new),
            objects=len(new),
            records=sum(item.records for item in new),
            untimed=sum(item.untimed for item in new),
            ahead=sum(item.ahead for item in new),
            known=len(objects) - len(new) - len(conflicts),
            conflicts=tuple(f"{self._bucket}/{key}" for key in conflicts),
            refused=tuple(item for _, item in refused),
        )

    def remember(self, tags: Mapping[str, str]) -> None:
        """Remember that these objects need not be read again."""
        self._up_to_date.update(tags)
        self._insert(
            "torchperf_ingested", [{"key": key, "tag": tags[key] + self._read_as} for key in sorted(tags)]
        )

    def _insert(self, table: str, rows: Sequence[Mapping[str, object]]) -> None:
        if rows:
            named = [{"bucket": self._bucket, **row} for row in rows]
            lines = "\n".join(json.dumps(row, ensure_ascii=False) for row in named)
            # Refused elements may contain invalid UTF-8; the engine keeps bytes.
            self._store.insert(table, list(named[0]), lines.encode("utf-8", "surrogateescape"))


class _S3Ingester:
    """Ingests the objects of a bucket: the engine itself reads the valid ones, batch by batch."""

    def __init__(self, store: Store, place: S3Place, format_name: str) -> None:
        self._store = store
        self._place = place
        self._reader = S3Reader(place, embedded=store.embedded)
        self._ingester = _BatchIngester(store, self._reader.bucket, format_name)

    def run(self) -> IngestOutcome:
        try:
            listed, ingest = self._reader.listed(self._store), self._ingest
        except RefusedStatementError:
            # An engine such as a server without rights cannot list them.
            listed, ingest = self._reader.listed_here(), self._read_in_process
        outcome = IngestOutcome()
        objects = (item for item in listed if is_records(item.key.removeprefix(self._reader.prefix)))
        for batch in in_batches(objects, BATCH_BYTES, BATCH_OBJECTS):
            with self._store.keep_open():
                known = self._ingester.known([item.key for item in batch])
                new = [item for item in batch if (item.key, item.tag) not in known]
                outcome += IngestOutcome(known=len(batch) - len(new))
                outcome += ingest(new) if new else IngestOutcome()
        return outcome

    def _read_in_process(self, batch: Sequence[ListedObject]) -> IngestOutcome:
        from torchperf_ci.places.s3 import WORKERS

        with ThreadPoolExecutor(WORKERS, thread_name_prefix="get") as pool:
            return self._ingester.ingest_and_remember([*pool.map(self._object, batch)])

    def _object(self, item: ListedObject) -> PlacedObject:
        key = item.key.removeprefix(self._reader.prefix)
        found = _object(self._place, key)
        # What is too large stays so, but what is in an archive may be restored.
        tag = found.tag if found.unfit and item.size <= MAX_BYTES else item.tag
        return replace(found, key=item.key, tag=tag)

    def _ingest(self, batch: Sequence[ListedObject]) -> IngestOutcome:
        """Ingest all at once; if that fails, bisect down to the invalid object, which our own reader handles."""
        if self._add(batch):
            return self._ingester.publish({item.key: item.tag for item in batch}, [])
        if len(batch) > 1:
            middle = len(batch) // 2
            return self._ingest(batch[:middle]) + self._ingest(batch[middle:])
        return self._ingester.ingest_and_remember([self._object(batch[0])])

    def _add(self, batch: Sequence[ListedObject]) -> bool:
        self._ingester.incoming.clear()
        if any(item.size > MAX_BYTES for item in batch):
            return False
        try:
            check_keys([item.key for item in batch])  # refuses characters that are special in a glob
            return self._ingester.incoming.add_s3(self._reader, [item.key for item in batch])
        except (UnsafeKeyError, RefusedStatementError):
            return False


def _refused_by_engine(item: LocatedRecord, error: RefusedStatementError) -> RefusedElement:
    reason = f"{item.path}: the database refuses it: {error}"
    return RefusedElement(item.file, item.line, item.path, (reason,), item.text)


def _refused_row(key: str, item: RefusedElement) -> dict[str, object]:
    found = asdict(item)
    del found["file"]
    return {"key": key, **found}
