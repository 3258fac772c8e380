"""A program in a process group of its own, which ends with all that it has started, even if this process is killed."""

from __future__ import annotations

import atexit
import os
import secrets
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torchperf_ci.processes import guard

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

PROGRAM = Path(guard.__file__)
GRACE_SECONDS = 3.0
_NOT_THE_GUARDS = (guard.VARIABLE, "RUNNER_TRACKING_ID")
"""By these, whoever started this process and a GitHub runner find, and end, what is left of it."""

_guards: dict[int, subprocess.Popen[bytes]] = {}
"""By process: a fork has none yet."""


class ProcessGroup:
    """A running program. ``options`` are those of :class:`subprocess.Popen`; raises :class:`OSError` as it does."""

    def __init__(self, command: Sequence[str], env: Mapping[str, str], **options: Any) -> None:
        _guard()  # before there is anything to guard
        self._mark = secrets.token_hex(8)
        self.process: subprocess.Popen[bytes] = subprocess.Popen(
            command, env={**env, guard.VARIABLE: self._mark}, start_new_session=True, **options
        )
        self._tell("+")

    def end(self, *, daemons: bool = True) -> None:
        """Kill what is left of it, also ``daemons`` that have left the group, and wait for the program itself.

        A process that is stuck in a driver cannot even be killed; then this goes on without it.
        """
        guard.end_group(self.process.pid)
        if daemons:
            guard.end_marked(self._mark)
        self._tell("-")
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(GRACE_SECONDS)

    def _tell(self, sign: str) -> None:
        pipe = _guard().stdin
        assert pipe
        with suppress(BrokenPipeError):  # somebody has killed it
            pipe.write(f"{sign} {self.process.pid} {self._mark}\n".encode())


def _guard() -> subprocess.Popen[bytes]:
    me = os.getpid()
    if me not in _guards:
        environment = {name: value for name, value in os.environ.items() if name not in _NOT_THE_GUARDS}
        _guards[me] = subprocess.Popen(
            [sys.executable, "-I", "-S", str(PROGRAM)],
            stdin=subprocess.PIPE,
            bufsize=0,
            env=environment,
            start_new_session=True,
        )
        atexit.register(_let_go, me)
    return _guards[me]


def _let_go(process: int) -> None:
    """At the end of the process that has the guard; not at that of a fork, which has registered this as well."""
    if process == os.getpid():
        ended = _guards.pop(process)
        ended.communicate()
