"""A process of its own that ends what its parent has started once the parent is gone, also after a SIGKILL.

Started by path (``python guard.py``), it needs the standard library alone. It reads lines from standard input:
``+ GROUP MARK`` for a process group that was started, and ``- GROUP MARK`` for one that has ended. At end of file,
however the parent ended, it ends all that are left.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path

VARIABLE = "TORCHPERF_GROUP"
"""Has the mark of its group in each process that inherits the environment, whatever session it has gone to."""
ROUNDS = 100
PAUSE = 0.01
"""Seconds between two looks: who was just killed may have started another one before."""


def main() -> None:
    # Whoever stops the parent (Ctrl-C, a cancelled job) must not stop this.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    left: dict[str, int] = {}
    for line in sys.stdin:
        sign, group, mark = line.split()
        if sign == "+":
            left[mark] = int(group)
        else:
            left.pop(mark, None)
    for mark, group_id in left.items():
        end_group(group_id)
        end_marked(mark)


def end_group(group: int) -> None:
    """Kill all processes of a group."""
    with suppress(ProcessLookupError, PermissionError):  # nobody is left; macOS says it the second way
        os.killpg(group, signal.SIGKILL)


def end_marked(mark: str) -> None:
    """Kill all processes with a mark, where the system tells their environment (Linux)."""
    for _ in range(ROUNDS):
        found = _marked(f"{VARIABLE}={mark}".encode())
        if not found:
            return
        for pid in found:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(PAUSE)


def _marked(entry: bytes) -> list[int]:
    return [int(folder.name) for folder in Path("/proc").glob("[0-9]*") if entry in _environment(folder)]


def _environment(folder: Path) -> list[bytes]:
    """Of a process; empty where it is not ours, or has ended."""
    with suppress(OSError):
        return (folder / "environ").read_bytes().split(b"\0")
    return []


if __name__ == "__main__":
    main()
