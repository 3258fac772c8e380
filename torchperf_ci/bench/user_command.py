"""A user's shell line as a benchmark: one run of it, and pairs of runs in two environments."""

from __future__ import annotations

import contextlib
import math
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from torchperf_ci.actions import without_rights
from torchperf_ci.bench.pairs import QUADS, ArmFailure
from torchperf_ci.bench.process import worker_environment
from torchperf_ci.bench.worker_client import LOG_TAIL_LINES, LOOK_SECONDS, WorkerFailure, random_variables
from torchperf_ci.errors import UsageError
from torchperf_ci.processes import ProcessGroup

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from torchperf_ci.bench.case import Settings
    from torchperf_ci.bench.pairs import Side

    Numbers = Mapping[str, float]
    Quad = tuple[Numbers, Numbers, Numbers, Numbers]


_PLACEHOLDER = re.compile(r"\{(sha|worktree|python)\}")


@dataclass(frozen=True)
class CommandArm:
    """A build that a command is run with.

    ``settings`` give its Python, the folders to import from, threads, CPUs and the seconds that a run may take. ``sha``
    is its commit, where it is known. ``worktree`` holds the files of that, where they are there; the command then runs
    in it. Compiler caches and what a run prints lie below ``scratch``, which belongs to this build alone.
    """

    settings: Settings
    sha: str | None
    worktree: Path | None
    scratch: Path

    @property
    def cache(self) -> Path:
        """Where compilers keep what they make."""
        return self.scratch / "cache"


def filled_in(command: str, arm: CommandArm) -> str:
    """The line with its places filled, all in one go: a path may look like one of them."""
    values = _values(arm)
    for name in _PLACEHOLDER.findall(command):
        if name not in values:
            msg = f"--command names {{{name}}}, and what this builder makes has none"
            raise UsageError(msg)
    return _PLACEHOLDER.sub(lambda place: shlex.quote(values[place[1]]), command)


def _values(arm: CommandArm) -> dict[str, str]:
    values = {"sha": arm.sha, "worktree": arm.worktree, "python": arm.settings.python}
    return {name: str(value) for name, value in values.items() if value}


def command_environment(arm: CommandArm) -> dict[str, str]:
    """The caller's variables, with the environment under test in front and no compiler's cache of another commit.

    Each call draws hash seed and padding anew (:func:`random_variables`).
    """
    python = Path(arm.settings.python)
    caller = without_rights(os.environ)
    inherited = {name: value for name, value in caller.items() if name not in ("PYTHONHOME", "VIRTUAL_ENV")}
    parent = python.parent.parent
    return {
        **inherited,
        **worker_environment(arm.settings, arm.cache),
        **random_variables(),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PATH": os.pathsep.join([str(python.parent), os.environ.get("PATH", os.defpath)]),
        **({"VIRTUAL_ENV": str(parent)} if (parent / "pyvenv.cfg").is_file() else {}),
        **{name.upper(): value for name, value in _values(arm).items()},
    }


MOST_PRINTED = 64 * 2**20
"""Bytes of either output; the records of a thousand benchmarks are a tenth of it."""

Reader = Callable[[Path], Mapping[str, float]]
"""From the file that holds what a command printed to numbers by name, all above 0.

Raises :class:`ValueError`, which says what is wrong with it.
"""


def run_user_command(command: str, arm: CommandArm, read: Reader) -> Mapping[str, float]:
    """The numbers that one run prints.

    Raises :class:`WorkerFailure` for a run that fails, hangs, or prints too much or no number, and
    :class:`UsageError` for a ``{worktree}`` or ``{sha}`` where there is none.
    """
    line = filled_in(command, arm)
    arm.scratch.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="run-", dir=arm.scratch, ignore_cleanup_errors=True) as folder:
        run = _CommandRun(Path(folder))
        failure = run.outcome(line, arm)
        if failure is None:
            try:
                return read(run.output)
            except ValueError as error:
                failure = ("failed", str(error))
        raise WorkerFailure(*failure, run.tail())


class _CommandRun:
    """One run, whose files lie in ``folder``."""

    def __init__(self, folder: Path) -> None:
        self.output, self._log, self._empty = folder / "stdout", folder / "stderr", folder / "work"
        self._empty.mkdir()

    def outcome(self, line: str, arm: CommandArm) -> tuple[str, str] | None:
        """A status word and a reason; None for a run that ended well."""
        with self.output.open("wb") as output, self._log.open("wb") as log, _pinned(arm.settings.cpus):
            group = ProcessGroup(
                ["sh", "-c", line],  # the shell that the user's line is written for
                command_environment(arm),
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
        return _failure_of(status)

    def tail(self) -> str:
        """The last lines of what was printed, those of the standard error last."""
        return "\n".join([*_last_lines(self.output), *_last_lines(self._log)][-LOG_TAIL_LINES:])


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


def _failure_of(status: int) -> tuple[str, str] | None:
    if status == 0:
        return None
    if status > 0:
        return "failed", f"it exited with code {status}"
    return "crashed", f"it was killed by signal {-status} ({signal.strsignal(-status)})"


def _last_lines(file: Path) -> list[str]:
    with file.open("rb") as content:
        content.seek(max(0, file.stat().st_size - 2**14))
        return content.read().decode(errors="replace").splitlines()


PAIR_SECONDS = 4.0
"""What all quads together take, as those of a workload do; a command for which one takes longer has that one."""
MOST_NAMED = 5


def measure_command_pair(
    command: str, base: CommandArm, head: CommandArm, read: Reader, *, head_first: bool = False
) -> Mapping[str, float]:
    """ln(head/base) of each number that all runs print, by its name: the median over the quads.

    ``read`` gives numbers that grow as things get worse, or not, as the caller needs them. Each quad is A B B A, or
    B A A B where head is to begin. Both arms must be on the same CPUs. Raises :class:`ArmFailure` if an arm cannot run
    the command, or none of its numbers is the other's.
    """
    arms: dict[Side, CommandArm] = {"base": base, "head": head}

    def run(side: Side) -> Numbers:
        try:
            return run_user_command(command, arms[side], read)
        except WorkerFailure as failure:
            raise ArmFailure(side, failure) from None

    def quad() -> Quad:
        if not head_first:
            return run("base"), run("head"), run("head"), run("base")
        b1, a1, a2, b2 = run("head"), run("base"), run("base"), run("head")
        return a1, b1, b2, a2

    start = time.monotonic()
    quads = [quad()]
    quads += [quad() for _ in range(_further_quads(time.monotonic() - start))]
    return {name: median(_log_ratio(runs, name) for runs in quads) for name in _common_names(quads)}


def _log_ratio(quad: Quad, name: str) -> float:
    """Of the means over either arm's two runs: a drift that is linear over the quad cancels."""
    a1, b1, b2, a2 = (run[name] for run in quad)
    return math.log((b1 + b2) / (a1 + a2))


def _common_names(quads: Sequence[Quad]) -> Sequence[str]:
    """What every run prints, in the order of the first."""
    runs = [run for quad in quads for run in quad]
    names = [name for name in runs[0] if all(name in run for run in runs)]
    if not names:
        side: Side = "head"
        printed = " and head ".join(", ".join([*run][:MOST_NAMED]) for run in quads[0][:2])
        raise ArmFailure(
            side, WorkerFailure("failed", f"base prints {printed}: nothing is the same in all runs")
        )
    return names


def _further_quads(seconds: float) -> int:
    """Quads to be taken after the first, which took so long."""
    return min(max(round(PAIR_SECONDS / max(seconds, 1e-9)), 1), QUADS) - 1
