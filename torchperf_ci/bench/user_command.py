"""One run of a user's shell line in an environment under test: pinned, with a deadline, and ended with all it began."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from torchperf_ci.bench.client import LOG_TAIL_LINES, LOOK_SECONDS, WorkerFailure
from torchperf_ci.bench.command_arm import environment, filled_in
from torchperf_ci.processes.group import Group

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_ci.bench.command_arm import CommandArm

MOST_PRINTED = 64 * 2**20
"""Bytes of either output; the records of a thousand benchmarks are a tenth of it."""

Reader = Callable[[Path], Mapping[str, float]]
"""From the file that holds what a command printed to numbers by name, all above 0.

Raises :class:`ValueError`, which says what is wrong with it.
"""


def run_command(command: str, arm: CommandArm, read: Reader) -> Mapping[str, float]:
    """The numbers that one run prints.

    Raises :class:`WorkerFailure` for a run that fails, hangs, or prints too much or no number, and
    :class:`UsageError` for a ``{worktree}`` or ``{sha}`` where there is none.
    """
    line = filled_in(command, arm)
    arm.scratch.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="run-", dir=arm.scratch, ignore_cleanup_errors=True) as folder:
        run = _Run(Path(folder))
        failure = run.outcome(line, arm)
        if failure is None:
            try:
                return read(run.output)
            except ValueError as error:
                failure = ("failed", str(error))
        raise WorkerFailure(*failure, run.tail())


class _Run:
    """One run, whose files lie in ``folder``."""

    def __init__(self, folder: Path) -> None:
        self.output, self._log, self._empty = folder / "stdout", folder / "stderr", folder / "work"
        self._empty.mkdir()

    def outcome(self, line: str, arm: CommandArm) -> tuple[str, str] | None:
        """A status word and a reason; None for a run that ended well."""
        with self.output.open("wb") as output, self._log.open("wb") as log, _pinned(arm.settings.cpus):
            group = Group(
                ["sh", "-c", line],  # the shell that the user's line is written for
                environment(arm),
                cwd=arm.worktree or self._empty,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=log,
            )
        try:
            return self._end(group.process, arm.settings.timeout)
        finally:
            group.end()  # also after a good end: what goes on in the background would disturb the next run

    def _end(self, process: subprocess.Popen[bytes], timeout: float) -> tuple[str, str] | None:
        deadline = time.monotonic() + timeout
        status = None
        while status is None:
            left = deadline - time.monotonic()
            with contextlib.suppress(subprocess.TimeoutExpired):
                status = process.wait(min(max(left, 0.0), LOOK_SECONDS))
            if max(file.stat().st_size for file in (self.output, self._log)) > MOST_PRINTED:
                return "failed", f"it printed more than {MOST_PRINTED >> 20} MiB"
            if status is None and left <= 0:
                return "timeout", f"it took longer than {timeout:.0f} s"
        return _explained(status)

    def tail(self) -> str:
        """The last lines of what was printed, those of the standard error last."""
        return "\n".join([*_lines(self.output), *_lines(self._log)][-LOG_TAIL_LINES:])


@contextlib.contextmanager
def _pinned(cpus: tuple[int, ...]) -> Iterator[None]:
    """What is started meanwhile inherits the CPUs; pinned afterwards, a shell may already have begun something."""
    if not cpus or sys.platform != "linux":
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cpus)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def _explained(status: int) -> tuple[str, str] | None:
    if status == 0:
        return None
    if status > 0:
        return "failed", f"it exited with code {status}"
    return "crashed", f"it was killed by signal {-status} ({signal.strsignal(-status)})"


def _lines(file: Path) -> list[str]:
    with file.open("rb") as content:
        content.seek(max(0, file.stat().st_size - 2**14))
        return content.read().decode(errors="replace").splitlines()
