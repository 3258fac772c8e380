"""Files that outlive a kill: JSON lines, each synced before the next thing is done, below the plan that they belong to.

The last line may be torn. What it was to tell was then never acted upon, so it is dropped.
"""

from __future__ import annotations

import json
import os
from typing import IO, TYPE_CHECKING, Any

from torchperf_ci.errors import ResumeError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Entry = dict[str, Any]


class OtherPlanError(ResumeError):
    """A sound journal of another plan; ``changed`` are the entries of it that differ."""

    def __init__(self, message: str, changed: Sequence[str]) -> None:
        super().__init__(message)
        self.changed = changed


def append(file: IO[bytes], entry: Mapping[str, Any]) -> None:
    """Add a line, and return when it is on the disk. ``file`` must be open for appending."""
    file.write(_line(entry))
    file.flush()
    os.fsync(file.fileno())


def entries(file: IO[bytes], plan: Mapping[str, Any], otherwise: str) -> list[Entry]:
    """What was appended below ``plan``; in a file that is empty, or torn in its first line, the plan is put first.

    ``file`` must be open for reading and appending. Raises :class:`ResumeError`, which ends in ``otherwise``, for
    another plan (:class:`OtherPlanError`) and for what is no journal; the file is left as it is then.
    """
    file.seek(0)
    content = file.read()
    header = _line({"plan": plan})
    if header.startswith(content):
        file.truncate(0)
        append(file, {"plan": plan})
        return []
    *lines, torn = content.split(b"\n")
    first, *found = [_parsed(file, *line, otherwise) for line in enumerate(lines, start=1)] or [{}]
    _check_plan(file, first, json.loads(header), otherwise)
    file.truncate(len(content) - len(torn))
    return found


def _line(entry: Mapping[str, Any]) -> bytes:
    return json.dumps(entry).encode() + b"\n"


def _parsed(file: IO[bytes], number: int, line: bytes, otherwise: str) -> Entry:
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        entry = None
    if not isinstance(entry, dict):
        msg = f"{file.name}:{number}: this is no line that torchperf wrote; {otherwise}"
        raise ResumeError(msg)
    return entry


def _check_plan(file: IO[bytes], first: Entry, header: Entry, otherwise: str) -> None:
    old, new = first.get("plan"), header["plan"]
    if not isinstance(old, dict):
        msg = f"{file.name} does not begin with the plan of a run; {otherwise}"
        raise ResumeError(msg)
    changed = sorted(key for key in {*old, *new} if old.get(key) != new.get(key))
    if changed:
        told = ", ".join(f"{key}: {_short(old.get(key))} → {_short(new.get(key))}" for key in changed)
        msg = f"{file.name} belongs to another run: {', '.join(changed)} changed ({told}); {otherwise}"
        raise OtherPlanError(msg, changed)


def _short(value: object) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
