"""The spool: all objects of an upload are on disk before the first is sent, and until the last one is delivered.

An uploader may be killed at any moment. What it was about to send is here with the same keys and bytes, so that
sending it again never makes a second upload.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import time
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Literal

import msgspec

from torchperf_ci.document import counted
from torchperf_ci.errors import OutputDirectoryError, RecordsError, UnsafeKeyError, failing_as
from torchperf_ci.json_files import append_entry, write_json_file
from torchperf_ci.places.place import check_keys
from torchperf_ci.records import files
from torchperf_ci.records.reading import RefusedElement, add_to_quarantine
from torchperf_ci.records.record import parsed_json
from torchperf_ci.upload.payload import Payload

Event = Literal["sending", "kept", "refused"]
_MEMBERS = ("url", "key", "content", "event")


class SentRequests:
    """A journal of requests to an upload API: one line per event, synced before and after each request.

    ``sending`` remains the last event of a request whose outcome is unknown: after a timeout, a server error, or the
    end of this process.
    """

    def __init__(self, path: Path, url: str) -> None:
        self._path = path
        self._url = url
        self._last = dict(self._read())

    def note(self, key: str, body: bytes, event: Event) -> None:
        """Record an event for ``body`` under ``key``."""
        line = {"url": self._url, "key": key, "content": hashlib.sha256(body).hexdigest(), "event": event}
        files.make_own_folder(self._path.parent)
        with files.open_journal(self._path) as file:
            append_entry(file, line)
        self._last[key, line["content"]] = event

    def may_be_there(self, key: str, body: bytes) -> bool:
        """Whether this content was sent to this key before, and not refused."""
        return self._last.get((key, hashlib.sha256(body).hexdigest())) in {"sending", "kept"}

    def _read(self) -> list[tuple[tuple[str, str], str]]:
        try:
            with files.open_regular(self._path) as file:
                lines = file.read().decode("utf-8", "replace").splitlines()
        except FileNotFoundError:
            return []
        except OSError as error:
            msg = f"{self._path}: cannot be read: {error.strerror}; move it out of the spool"
            raise RecordsError(msg) from error
        events = [event for line in lines if (event := _decoded(line)).get("url") == self._url]
        return [((event["key"], event["content"]), event["event"]) for event in events]


def _decoded(line: str) -> dict[str, str]:
    """Return the event of a line; empty for a truncated line, and any other that is not an event."""
    event = parsed_json(line)
    whole = isinstance(event, dict) and all(isinstance(event.get(name), str) for name in _MEMBERS)
    return event if whole else {}


QUARANTINE = "quarantine.jsonl"
_ABOUT = "about.json"
_DELIVERED = "delivered"
_NAME_LENGTH = 16
_DAMAGED = (OSError, EOFError, zipfile.BadZipFile, ValueError, KeyError, RuntimeError, UnsafeKeyError)


@dataclass(frozen=True)
class _About:
    """The member of a batch that says what the others are; ``records`` has the number of records by key."""

    target: str
    source: str
    records: dict[str, int]


@dataclass(frozen=True)
class SpooledBatch:
    """The undelivered objects of one upload. ``source`` is a digest of the files they were made from."""

    path: Path
    source: str
    payloads: tuple[Payload, ...]

    @property
    def bodies(self) -> dict[str, bytes]:
        """The content of each object by key."""
        return {payload.key: payload.body for payload in self.payloads}


class Spool:
    """A directory of batches, one zip file each; ``target`` is their destination, without credentials."""

    def __init__(self, root: Path, target: str) -> None:
        self.root = root
        self.target = target
        self.quarantine = root / QUARANTINE
        self.damaged: dict[Path, str] = {}
        self._taken: set[Path] = set()

    def set_aside(self, refused: Iterable[RefusedElement]) -> None:
        """Add refused elements to the quarantine. Raises :class:`OutputDirectoryError` or :class:`RecordsError`."""
        with self._for_writing():
            folder = os.open(self.root, os.O_RDONLY)
            try:
                fcntl.flock(folder, fcntl.LOCK_EX)  # the quarantine is written anew each time
                add_to_quarantine(self.quarantine, refused)
            finally:
                os.close(folder)

    def keep(self, source: str, payloads: Sequence[Payload]) -> SpooledBatch:
        """Write a new batch to disk atomically. Raises :class:`OutputDirectoryError`."""
        identity = [self.target, *(f"{payload.key} {_spool_digest(payload.body)}" for payload in payloads)]
        path = self.root / f"{_spool_digest(*identity)[:_NAME_LENGTH]}.zip"
        batch = SpooledBatch(path, source, tuple(payloads))
        self._write(batch)
        self._taken.add(path)
        return batch

    def pending(self) -> list[SpooledBatch]:
        """Return the batches for this target, by name; others may be :attr:`damaged`."""
        batches = [batch for path in sorted(self.root.glob("*.zip")) if (batch := self._read(path))]
        self._taken.update(self.damaged, (batch.path for batch in batches))
        return batches

    def left_out(self) -> str:
        """Say which batches are damaged or neither :meth:`keep` nor :meth:`pending` has returned; empty if none."""
        others = sum(path not in self._taken for path in self.root.rglob("*.zip"))
        why = "without --resume, for another --to, or in a folder below"
        told = [f"{counted(others, 'upload')} in {self.root} not sent: {why}"] if others else []
        return ", ".join([*told, *self.damaged.values()])

    def settle(self, batch: SpooledBatch, kept: Iterable[str]) -> None:
        """Remove the objects that were ``kept``; if none is left, note that ``batch.source`` has been delivered.

        On a full disk the batch stays as it is: what is sent once more is found to be there already.
        """
        done = set(kept)
        left = tuple(payload for payload in batch.payloads if payload.key not in done)
        with suppress(OutputDirectoryError):
            if not left:
                receipt = json.dumps({"target": self.target, "time": int(time.time())})
                write_json_file(self._receipt(batch.source), receipt)
                batch.path.unlink(missing_ok=True)
            elif done:
                self._write(SpooledBatch(batch.path, batch.source, left))

    def knows(self, source: str) -> bool:
        """Whether the files with this digest have been delivered to this target, or are in a batch for it."""
        return self._receipt(source).exists() or any(batch.source == source for batch in self.pending())

    def remove_irregular(self) -> list[Path]:
        """Remove links, pipes and the like: jobs publish the spool as an artifact, and that follows links."""
        irregular = [path for path in sorted(self.root.rglob("*")) if files.is_irregular(path)]
        for path in irregular:
            path.unlink(missing_ok=True)
        return irregular

    def _receipt(self, source: str) -> Path:
        return self.root / _DELIVERED / f"{_spool_digest(self.target, source)[:_NAME_LENGTH]}.json"

    def _write(self, batch: SpooledBatch) -> None:
        records = {payload.key: payload.records for payload in batch.payloads}
        about = _About(self.target, batch.source, records)
        with self._for_writing():
            files.replace_by(batch.path, lambda file: _pack(file, about, batch.bodies))

    @contextmanager
    def _for_writing(self) -> Iterator[None]:
        advice = "; name a writable directory with --spool"
        with failing_as(OutputDirectoryError, f"{self.root}: cannot be written: ", advice):
            files.make_own_folder(self.root)
            yield

    def _read(self, path: Path) -> SpooledBatch | None:
        """Return the batch; None if it is for another target, damaged, or just delivered by another uploader."""
        try:
            with files.open_regular(path) as file, zipfile.ZipFile(file) as packed:
                about = msgspec.convert(parsed_json(_content(packed, _ABOUT)), _About)
                if about.target != self.target:
                    return None
                check_keys(about.records)
                payloads = [
                    Payload(key, _content(packed, key), count) for key, count in about.records.items()
                ]
        except FileNotFoundError:
            return None
        except _DAMAGED as error:
            why = str(error) or "it ends too early"
            self.damaged[path] = f"{path}: is not a batch, or damaged ({why}); move it out of the spool"
            return None
        return SpooledBatch(path, about.source, tuple(payloads))


def _content(packed: zipfile.ZipFile, name: str) -> bytes:
    if packed.getinfo(name).compress_type != zipfile.ZIP_STORED:  # a batch takes no more memory than disk
        raise zipfile.BadZipFile("it is compressed")
    with packed.open(name) as file:
        return files.read_limited(file, files.MAX_BYTES)


def _pack(file: IO[bytes], about: _About, bodies: Mapping[str, bytes]) -> None:
    with zipfile.ZipFile(file, "w") as packed:
        for name, content in {_ABOUT: json.dumps(asdict(about)).encode(), **bodies}.items():
            packed.writestr(zipfile.ZipInfo(name), content)  # not dated, as no zip can be before 1980


def _spool_digest(*parts: str | bytes) -> str:
    digest = hashlib.sha256()
    for part in parts:
        content = part.encode("utf-8", "surrogateescape") if isinstance(part, str) else part
        digest.update(len(content).to_bytes(8, "big") + content)
    return digest.hexdigest()
