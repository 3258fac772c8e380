"""Programs that end with all that they have started, even if torchperf itself is killed.

Each runs in a process group of its own. A guard, which is this very file started as a script of its own, outlives a
SIGKILL of torchperf and then ends the groups that are left. So this file needs the standard library alone.
"""

from __future__ import annotations

import atexit
import os
import secrets
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

GRACE_SECONDS = 3.0
_MARK = "TORCHPERF_GROUP"
"""Has the mark of its group in each process that inherits the environment, whatever session it has gone to."""
_NOT_THE_GUARDS = (_MARK, "RUNNER_TRACKING_ID")
"""By these, whoever started this process and a GitHub runner find, and end, what is left of it."""
_ROUNDS = 100
_PAUSE = 0.01
"""Seconds between two looks: who was just killed may have started another one before."""

_guards: dict[int, subprocess.Popen[bytes]] = {}
"""By process: a fork has none yet."""


class ProcessGroup:
    """A running program. ``options`` are those of :class:`subprocess.Popen`; raises :class:`OSError` as it does."""

    def __init__(self, command: Sequence[str], env: Mapping[str, str], **options: Any) -> None:
        _guard()  # before there is anything to guard
        self._mark = secrets.token_hex(8)
        self.process: subprocess.Popen[bytes] = subprocess.Popen(
            command, env={**env, _MARK: self._mark}, start_new_session=True, **options
        )
        self._tell_guard("+")

    def end(self, *, daemons: bool = True) -> None:
        """Kill what is left of it, also ``daemons`` that have left the group, and wait for the program itself.

        A process that is stuck in a driver cannot even be killed; then this goes on without it.
        """
        _end_group(self.process.pid)
        if daemons:
            _end_marked(self._mark)
        self._tell_guard("-")
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(GRACE_SECONDS)

    def _tell_guard(self, sign: str) -> None:
        pipe = _guard().stdin
        assert pipe
        with suppress(BrokenPipeError):  # somebody has killed it
            pipe.write(f"{sign} {self.process.pid} {self._mark}\n".encode())


def _guard() -> subprocess.Popen[bytes]:
    """The guard of this process, which is started by path: nothing of the package is imported there."""
    me = os.getpid()
    if me not in _guards:
        environment = {name: value for name, value in os.environ.items() if name not in _NOT_THE_GUARDS}
        _guards[me] = subprocess.Popen(
            [sys.executable, "-I", "-S", __file__],
            stdin=subprocess.PIPE,
            bufsize=0,
            env=environment,
            start_new_session=True,
        )
        atexit.register(_let_guard_go, me)
    return _guards[me]


def _let_guard_go(process: int) -> None:
    """At the end of the process that has the guard; not at that of a fork, which has registered this as well."""
    if process == os.getpid():
        ended = _guards.pop(process)
        ended.communicate()


def _end_group(group: int) -> None:
    with suppress(ProcessLookupError, PermissionError):  # nobody is left; macOS says it the second way
        os.killpg(group, signal.SIGKILL)


def _end_marked(mark: str) -> None:
    """Kill all processes with a mark, where the system tells their environment (Linux)."""
    for _ in range(_ROUNDS):
        found = _marked(f"{_MARK}={mark}".encode())
        if not found:
            return
        for pid in found:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(_PAUSE)


def _marked(entry: bytes) -> list[int]:
    return [int(folder.name) for folder in Path("/proc").glob("[0-9]*") if entry in _environment(folder)]


def _environment(folder: Path) -> list[bytes]:
    """Of a process; empty where it is not ours, or has ended."""
    with suppress(OSError):
        return (folder / "environ").read_bytes().split(b"\0")
    return []


def _stand_guard() -> None:
    """Read which groups there are, until whoever tells it is gone, and end those that are left.

    A line of standard input is ``+ GROUP MARK`` for a group that was started, ``- GROUP MARK`` for one that has ended.
    """
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
        _end_group(group_id)
        _end_marked(mark)


if __name__ == "__main__":
    _stand_guard()
