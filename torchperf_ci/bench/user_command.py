"""Run a user's shell command as a benchmark: once, or in pairs of runs with two builds."""

from __future__ import annotations

import contextlib
import math
import os
import re
import shlex
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from torchperf_ci.actions import without_rights
from torchperf_ci.bench.pairs import QUADS, Side, SideFailure
from torchperf_ci.bench.process import worker_environment
from torchperf_ci.bench.worker_client import LOOK_SECONDS, WorkerFailure, last_lines, random_variables
from torchperf_ci.errors import UsageError
from torchperf_ci.machine.tuning import pin
from torchperf_ci.processes import ProcessGroup

if TYPE_CHECKING:
    from torchperf_ci.bench.case import Settings

    Numbers = Mapping[str, float]
    Quad = tuple[Numbers, Numbers, Numbers, Numbers]


_OURS = re.compile(r"TORCHPERF_.*|PYTHONHOME|VIRTUAL_ENV")
"""Variables of this process alone: its options, which a command that calls torchperf must not get, and its Python."""
_PLACEHOLDER = re.compile(r"\{(sha|worktree|python)\}")


@dataclass(frozen=True)
class InstalledBuild:
    """A build that a command is run with.

    ``settings`` provides its Python, import folders, threads, CPUs and the timeout of a run in seconds. ``sha`` is its
    commit, if known. ``worktree`` is a checkout of that commit, if there is one; the command then runs in it.
    ``scratch`` holds compiler caches and the output of runs, and must not be shared with another build.
    """

    settings: Settings
    sha: str | None
    worktree: Path | None
    scratch: Path

    @property
    def cache(self) -> Path:
        """Folder of the compilers' caches."""
        return self.scratch / "cache"


def filled_in(command: str, build: InstalledBuild) -> str:
    """Return the command with its placeholders replaced, all in one pass: a path may contain a placeholder's text.

    Raises :class:`UsageError` for a placeholder without a value.
    """
    values = _values(build)
    for name in _PLACEHOLDER.findall(command):
        if name not in values:
            raise UsageError(f"--command uses {{{name}}}, which this builder does not provide")
    return _PLACEHOLDER.sub(lambda place: shlex.quote(values[place[1]]), command)


def _values(build: InstalledBuild) -> dict[str, str]:
    values = {"sha": build.sha, "worktree": build.worktree, "python": build.settings.python}
    return {name: str(value) for name, value in values.items() if value}


def command_environment(build: InstalledBuild) -> dict[str, str]:
    """Return the caller's variables but for torchperf's, with the environment under test first on the path.

    The compiler caches are the build's. Each call draws a new hash seed and padding (:func:`random_variables`).
    """
    python = Path(build.settings.python)
    caller = without_rights(os.environ)
    inherited = {name: value for name, value in caller.items() if not _OURS.fullmatch(name)}
    parent = python.parent.parent
    return {
        **inherited,
        **worker_environment(build.settings, build.cache),
        **random_variables(),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PATH": os.pathsep.join([str(python.parent), os.environ.get("PATH", os.defpath)]),
        **({"VIRTUAL_ENV": str(parent)} if (parent / "pyvenv.cfg").is_file() else {}),
        **{name.upper(): value for name, value in _values(build).items()},
    }


MAX_OUTPUT_BYTES = 64 * 2**20
"""Most bytes of either output stream; the records of a thousand benchmarks take a tenth of it."""

Reader = Callable[[Path], Mapping[str, float]]
"""Reads the file of a command's standard output into numbers by name, all above 0.

Raises :class:`ValueError` that says what is wrong with the output.
"""


def run_user_command(command: str, build: InstalledBuild, read: Reader) -> Mapping[str, float]:
    """Run the command once and return the numbers that it prints.

    Raises :class:`WorkerFailure` if the run fails, hangs, or prints too much or no number, and :class:`UsageError`
    for a ``{worktree}`` or ``{sha}`` that the build does not have.
    """
    line = filled_in(command, build)
    if build.worktree and not build.worktree.is_dir():
        status, reason = "failed", "--build or an earlier run removed the worktree, in which it has to run"
        raise WorkerFailure(status, reason)
    build.scratch.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="run-", dir=build.scratch, ignore_cleanup_errors=True) as folder:
        output, log, empty = (Path(folder) / name for name in ("stdout", "stderr", "work"))
        empty.mkdir()
        try:
            failure = _run(line, build, build.worktree or empty, output, log)
            if failure is None:
                return read(output)
        except ValueError as error:
            failure = ("failed", str(error))
        except FileNotFoundError as error:
            failure = ("failed", f"while it ran, {error.filename} was removed, which holds its output")
        raise WorkerFailure(*failure, last_lines(output, log))


def _run(line: str, build: InstalledBuild, folder: Path, output: Path, log: Path) -> tuple[str, str] | None:
    """Run the command; return a status and a reason, or None if it succeeded."""
    with output.open("wb") as stdout, log.open("wb") as stderr, _pinned(build.settings.cpus):
        group = ProcessGroup(
            ["sh", "-c", line],  # the shell that the user's line is written for
            command_environment(build),
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
        )
    deadline = time.monotonic() + build.settings.timeout
    status = None
    try:
        while status is None:
            left = deadline - time.monotonic()
            with contextlib.suppress(subprocess.TimeoutExpired):
                status = group.process.wait(min(max(left, 0.0), LOOK_SECONDS))
            if max(file.stat().st_size for file in (output, log)) > MAX_OUTPUT_BYTES:
                return "failed", f"it printed more than {MAX_OUTPUT_BYTES >> 20} MiB"
            if status is None and left <= 0:
                return "timeout", f"it took longer than {build.settings.timeout:.0f} s: raise --timeout"
    finally:
        group.end()  # also after success: processes left in the background would disturb the next run
    if status == 0:
        return None
    if status > 0:
        return "failed", f"it exited with code {status}"
    return "crashed", f"it was killed by signal {-status} ({signal.strsignal(-status)})"


@contextlib.contextmanager
def _pinned(cpus: tuple[int, ...]) -> Iterator[None]:
    """Pin this process to the CPUs, so that processes started in the block inherit them.

    Pinning a shell after its start would miss children that it has already started.
    """
    if not cpus:
        yield
        return
    before = os.sched_getaffinity(0)
    pin(0, cpus)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


PAIR_SECONDS = 4.0
"""Target duration of all quads together, as for workloads. A command whose first quad takes longer gets only that."""
MAX_NAMED = 5


def measure_command_pair(
    run_on: Callable[[InstalledBuild], Numbers],
    base: InstalledBuild,
    head: InstalledBuild,
    *,
    head_first: bool = False,
) -> Mapping[str, float]:
    """Return ln(head/base) of each number that all runs print, by name: the median over the quads.

    ``run_on`` runs the command once on a build, and determines whether larger numbers are better or worse. Each quad
    runs base head head base, or head base base head with ``head_first``. Both builds must be on the same CPUs. Raises
    :class:`SideFailure` if one cannot run the command, or if no number is printed by both builds.
    """
    builds: dict[Side, InstalledBuild] = {"base": base, "head": head}

    def run(side: Side) -> Numbers:
        try:
            return run_on(builds[side])
        except WorkerFailure as failure:
            raise SideFailure(side, failure) from None

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
    """Log-ratio of the means over each build's two runs. A drift that is linear over the quad cancels out."""
    a1, b1, b2, a2 = (run[name] for run in quad)
    return math.log((b1 + b2) / (a1 + a2))


def _common_names(quads: Sequence[Quad]) -> Sequence[str]:
    """Return the names that every run prints, in the order of the first run. Raises :class:`SideFailure` for none."""
    runs = [run for quad in quads for run in quad]
    names = [name for name in runs[0] if all(name in run for run in runs)]
    if not names:
        printed = " and head ".join(", ".join([*run][:MAX_NAMED]) for run in quads[0][:2])
        reason = f"base prints {printed}: nothing is the same in all runs"
        raise SideFailure(side="head", failure=WorkerFailure("failed", reason))
    return names


def _further_quads(seconds: float) -> int:
    """Number of quads to run after the first one, which took ``seconds``."""
    return min(max(round(PAIR_SECONDS / max(seconds, 1e-9)), 1), QUADS) - 1
