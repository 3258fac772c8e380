"""Run programs such that all processes they start end with them, even if torchperf itself is killed.

Each program has its own process group. A guard process survives a SIGKILL of torchperf and kills the groups that are
left. It runs this file as a script, so the file must use the standard library only.
"""

from __future__ import annotations

import atexit
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from io import FileIO
from typing import Any

GRACE_SECONDS = 3.0
_MARK = "TORCHPERF_GROUP"
"""Environment variable with the mark of the group, which identifies descendants that left its session."""
MARKS = (_MARK, "RUNNER_TRACKING_ID")
"""Variables by which an outer torchperf or a GitHub runner finds and kills a process that must outlive this one."""
_ROUNDS = 100
_PAUSE = 0.01
"""Seconds between two searches: a process may have started another one just before it was killed."""

_guards: dict[int, subprocess.Popen[bytes]] = {}
"""The guard by process id, since a fork needs its own."""


class ProcessGroup:
    """A running program with its process group. ``options`` are passed to :class:`subprocess.Popen`."""

    def __init__(self, command: Sequence[str], env: Mapping[str, str], **options: Any) -> None:
        self._mark = secrets.token_hex(8)
        self._notify_guard("+")  # this process may be killed before it knows the group
        self.process: subprocess.Popen[bytes] = subprocess.Popen(
            command, env={**env, _MARK: self._mark}, start_new_session=True, **options
        )
        self._notify_guard("+", self.process.pid)

    def end(self, *, daemons: bool = True) -> None:
        """Kill the remaining processes, including ``daemons`` that left the group, and wait for the program itself.

        A process that is stuck in a driver cannot be killed; it is left behind after a short wait.
        """
        end_group(self.process.pid)
        if daemons:
            _end_marked(self._mark)
        self._notify_guard("-")
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(GRACE_SECONDS)

    def _notify_guard(self, sign: str, *group: int) -> None:
        pipe = _guard().stdin
        assert pipe
        with suppress(BrokenPipeError):  # the guard was killed
            pipe.write(" ".join([sign, self._mark, *map(str, group)]).encode() + b"\n")


def _guard() -> subprocess.Popen[bytes]:
    """Return this process's guard, starting it if needed; it runs by path, so nothing of the package is imported."""
    me = os.getpid()
    if me not in _guards:
        _guards[me] = subprocess.Popen(
            [sys.executable, "-I", "-S", __file__],
            stdin=subprocess.PIPE,
            bufsize=0,
            env={name: value for name, value in os.environ.items() if name not in MARKS},
            start_new_session=True,
        )
        atexit.register(_let_guard_go, me)
    return _guards[me]


def _let_guard_go(process: int) -> None:
    """Let the guard end at exit; not at the exit of a fork, which inherits the registration."""
    if process == os.getpid():
        _guards.pop(process).communicate()


def end_group(group: int) -> None:
    """Kill the processes of a group."""
    with suppress(ProcessLookupError, PermissionError):  # no process is left; macOS raises the latter
        os.killpg(group, signal.SIGKILL)


def _end_marked(mark: str) -> None:
    """Kill all processes with this mark, on systems that expose the environment of processes (Linux)."""
    for _ in range(_ROUNDS):
        marked = _marked(f"{_MARK}={mark}".encode())
        if not marked:
            return
        for pid in marked:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(_PAUSE)


def _marked(entry: bytes) -> list[int]:
    return [pid for pid, environment in proc_files("environ") if entry in environment.split(b"\0")]


def proc_files(name: str, proc: str = "/proc") -> Iterator[tuple[int, bytes]]:
    """Read this file of each process, by its id; not of other users' processes, nor of those that have ended.

    Measurements do so again and again; with :class:`pathlib.Path` it takes twice as long.
    """
    with suppress(OSError), os.scandir(proc) as folders:  # not every system has it
        for folder in folders:
            if folder.name.isdigit():
                with suppress(OSError), FileIO(f"{folder.path}/{name}") as file:
                    yield int(folder.name), file.readall()


def _stand_guard() -> None:
    """Keep track of the groups until standard input is closed, then kill those that are left.

    A line of standard input is ``+ MARK`` for a group that is about to start, ``+ MARK GROUP`` once it was started, and
    ``- MARK`` once it has ended.
    """
    # Signals that stop the parent (Ctrl-C, a canceled job) must not stop the guard.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    left: dict[str, list[int]] = {}
    for line in sys.stdin:
        sign, mark, *group = line.split()
        if sign == "+":
            left[mark] = [*map(int, group)]
        else:
            left.pop(mark, None)
    for mark, groups in left.items():
        for group_id in groups:
            end_group(group_id)
        _end_marked(mark)


if __name__ == "__main__":
    _stand_guard()
