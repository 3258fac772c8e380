"""Programs that make an environment: with a deadline, and ended with all that they started."""

from __future__ import annotations

import subprocess
import tempfile
from typing import IO, TYPE_CHECKING

from torchperf_ci.errors import EnvironmentUnderTestError
from torchperf_ci.git import without_secrets
from torchperf_ci.processes.group import Group

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

TAIL_LINES = 40
"""Of what a program printed, in the message that says that it failed."""


def run_program(
    command: Sequence[str], what: str, seconds: float, *, cwd: Path, environ: Mapping[str, str]
) -> str:
    """Run ``command`` to its end; what it printed, on both channels.

    Raises :class:`EnvironmentUnderTestError` with the last lines of that.
    """
    with tempfile.TemporaryFile() as log:
        try:
            status = _status(command, seconds, log, cwd, environ)
        except OSError as error:
            msg = f"{what}: {command[0]} does not start: {error.strerror}"
            raise EnvironmentUnderTestError(msg) from None
        printed = _printed(log)
        if status == 0:
            return printed
        how = f"was not done after {seconds:.0f} s" if status is None else f"ended with {status}"
        msg = f"{what} {how}:\n{_tail(printed)}"
        raise EnvironmentUnderTestError(msg)


def _status(
    command: Sequence[str], seconds: float, log: IO[bytes], cwd: Path, environ: Mapping[str, str]
) -> int | None:
    """The exit code; None when the time was up."""
    group = Group(command, environ, cwd=cwd, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT)
    status = None
    try:
        status = group.process.wait(seconds)
    except subprocess.TimeoutExpired:
        pass
    finally:
        # What a good build leaves running on purpose, such as the server of a compiler's cache, serves the next one.
        group.end(daemons=status is None)
    return status


def _printed(log: IO[bytes]) -> str:
    log.seek(0)
    return log.read().decode(errors="replace")


def _tail(printed: str) -> str:
    return without_secrets("\n".join(printed.splitlines()[-TAIL_LINES:])) or "(it printed nothing)"
