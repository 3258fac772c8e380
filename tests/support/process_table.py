"""Which processes run, and a wait for what they do."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

PATIENCE = 300.0
"""Longest wait in seconds; only a test that fails takes it."""


def wait_until(is_so: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def runs(pid: int) -> bool:
    """Whether it is neither gone nor a zombie that nobody reaps in this container."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def mentioning(text: str) -> list[int]:
    """Processes, other than this one, with ``text`` in their command line or environment."""
    pids = {int(folder.name) for folder in Path("/proc").glob("[0-9]*")} - {os.getpid()}
    return [pid for pid in pids if any(text in _read(pid, name) for name in ("cmdline", "environ"))]


def _read(pid: int, name: str) -> str:
    """Empty for one that is another user's, or has ended."""
    try:
        return Path(f"/proc/{pid}/{name}").read_text(errors="replace")
    except OSError:
        return ""
