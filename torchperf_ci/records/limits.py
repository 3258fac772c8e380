"""How much of a file or an object is read: what a stranger sends must not take all memory, nor all day.

docs/record.md has the same figures. Each is far beyond what a night of benchmarks makes: thousands of records, some
megabytes.
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_BYTES = 64 * 2**20
"""Of one file or object, as it is stored and as it is unpacked."""

MAX_VALUES = 4_000_000
"""Values in one file, counted by their punctuation; the smallest ones take fifty times their text in memory."""

MAX_ELEMENTS = 100_000
"""Records in one file, and pieces of it that are none."""

MAX_FILES = 20_000
"""Files of one upload."""

MAX_UPLOAD = 256 * 2**20
"""Bytes, unpacked, of all files of one upload, which are in memory together."""

_cpu_end: ContextVar[float | None] = ContextVar("_cpu_end", default=None)


class OverLimitError(Exception):
    """A file is beyond a limit, and refused as a whole; the message is the reason."""


def mebibytes(size: int) -> str:
    """A limit in bytes as people read it."""
    return f"{size // 2**20} MiB"


@contextmanager
def cpu_limit(cpu_seconds: float) -> Iterator[None]:
    """Inside, :func:`checkpoint` raises once this thread has computed for so long.

    Its own time is counted, not that of the clock: a busy machine makes nobody's records refused.
    """
    token = _cpu_end.set(time.thread_time() + cpu_seconds)
    try:
        yield
    finally:
        _cpu_end.reset(token)


def checkpoint() -> None:
    """Raise :class:`OverLimitError` where the time of :func:`cpu_limit` is up; called wherever there is a loop."""
    end = _cpu_end.get()
    if end is not None and time.thread_time() > end:
        msg = "takes too long to check; split it"
        raise OverLimitError(msg)


def check_bytes(size: int, what: str = "holds") -> None:
    """Raise :class:`OverLimitError` for more than a file may have."""
    if size > MAX_BYTES:
        msg = f"{what} more than {mebibytes(MAX_BYTES)}; split it"
        raise OverLimitError(msg)


def check_values(text: str) -> None:
    """Raise :class:`OverLimitError` for a text whose values would take too much memory, before any is made."""
    if sum(map(text.count, "[{,")) > MAX_VALUES:
        msg = f"holds more than {MAX_VALUES:,} values; split it"
        raise OverLimitError(msg)


def check_elements(number: int) -> None:
    """Raise :class:`OverLimitError` for more records, or pieces that are none, than a file may have."""
    if number > MAX_ELEMENTS:
        msg = f"holds more than {MAX_ELEMENTS:,} records; split it"
        raise OverLimitError(msg)
