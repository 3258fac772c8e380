"""What was sent to an upload API with an answer that never came: the next "exists already" is then about ourselves."""

from __future__ import annotations

import hashlib
import json
import os
from typing import TYPE_CHECKING, Literal

from torchperf_ci.errors import RecordsError
from torchperf_ci.records.files import open_journal, open_regular
from torchperf_ci.records.own_folder import make_folder

if TYPE_CHECKING:
    from pathlib import Path

Event = Literal["sending", "kept", "refused"]
_MEMBERS = ("url", "key", "content", "event")


class Tried:
    """A file of one line an event, appended and synced before and after each request.

    ``sending`` stays the last event of a request whose outcome is not known: a time-out, a server's failure, or the
    end of this process.
    """

    def __init__(self, path: Path, url: str) -> None:
        self._path = path
        self._url = url
        self._last = dict(self._read())

    def note(self, key: str, body: bytes, event: Event) -> None:
        """Remember what happens to ``body`` under ``key``."""
        line = {"url": self._url, "key": key, "content": _digest(body), "event": event}
        make_folder(self._path.parent)
        with open_journal(self._path) as file:
            file.write(json.dumps(line).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())
        self._last[key, line["content"]] = event

    def may_be_there(self, key: str, body: bytes) -> bool:
        """Whether this very content was sent to this key before, and not refused."""
        return self._last.get((key, _digest(body))) in {"sending", "kept"}

    def _read(self) -> list[tuple[tuple[str, str], str]]:
        try:
            with open_regular(self._path) as file:
                lines = file.read().decode("utf-8", "replace").splitlines()
        except FileNotFoundError:
            return []
        except OSError as error:
            msg = f"{self._path}: cannot be read: {error.strerror}; move it out of the spool"
            raise RecordsError(msg) from error
        events = [event for line in lines if (event := _decoded(line)).get("url") == self._url]
        return [((event["key"], event["content"]), event["event"]) for event in events]


def _decoded(line: str) -> dict[str, str]:
    """The event; empty for a line that a kill cut short, and for any other that is none."""
    try:
        event = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    whole = isinstance(event, dict) and all(isinstance(event.get(name), str) for name in _MEMBERS)
    return event if whole else {}


def _digest(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()
