"""From the night's verdicts to the matrix of its bisections, each with a file of what it is about."""

from __future__ import annotations

import hashlib
from dataclasses import astuple, dataclass
from typing import TYPE_CHECKING

from torchperf_ci.errors import UsageError
from torchperf_ci.plan.bisections import LeftOut, Regression, regressions, shares
from torchperf_ci.plan.machines import machines_of
from torchperf_ci.plan.naming import Names
from torchperf_ci.verdicts import file
from torchperf_ci.verdicts.verdict import Judgement

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from torchperf_ci.plan.matrix import Job

_SHOWN = 10
"""Digits of a commit in a name."""


@dataclass(frozen=True)
class Bisection:
    """A row of the matrix. ``verdicts`` is the name of a file, ``deadline`` are seconds.

    ``good`` and ``bad`` are the ends of the range, ``name`` is no other row's, and safe as the name of an artifact.
    ``search`` is the same for the same question of another night, whose state it may go on from.
    """

    name: str
    runner: str
    labels: tuple[str, ...]
    device: str
    good: str
    bad: str
    verdicts: str
    deadline: int
    search: str


@dataclass(frozen=True)
class Tonight:
    """The rows, each with what it is about; what waits, for want of time; and what cannot be bisected."""

    chosen: Mapping[Bisection, Regression]
    waiting: Sequence[Regression]
    left_out: Sequence[LeftOut]


def tonight(files: Sequence[Path], jobs: Sequence[Job], records: Path, budget: float) -> Tonight:
    """Plan the bisections of what regressed in ``files``, measured by ``jobs``, in ``budget`` seconds of machine time.

    Raises :class:`UsageError`, and :class:`VerdictsError` for a file that is none.
    """
    if not records.is_dir():
        msg = f"--records {records}: there is no such directory; give the one that the jobs' artifacts are in"
        raise UsageError(msg)
    verdicts = [verdict for path in files for verdict in file.read(path).verdicts]
    found = regressions(verdicts, machines_of(jobs, records).runner_of)
    divided = shares(found.all, budget)
    kinds = {job.runner: job for job in jobs}
    names = Names()
    chosen = {_row(one, kinds[one.runner], names, divided.deadline): one for one in divided.chosen}
    return Tonight(chosen, divided.waiting, found.left_out)


def write(plan: Tonight, folder: Path) -> None:
    """Write each row's file of verdicts into ``folder``, which is made if need be.

    Raises :class:`VerdictsError` or :class:`OutputDirectoryError`.
    """
    for row, regression in plan.chosen.items():
        file.write(folder / row.verdicts, Judgement("plan", row.good, row.bad, regression.verdicts))


def _row(regression: Regression, job: Job, names: Names, deadline: int) -> Bisection:
    good, bad = regression.range
    name = names.unique(regression.runner, good[:_SHOWN], bad[:_SHOWN])
    search = _search(regression)
    return Bisection(name, job.runner, job.labels, job.device, good, bad, f"{name}.json", deadline, search)


def _search(regression: Regression) -> str:
    """16 hexadecimal digits of what is asked: where, between which commits, and of which series."""
    asked = [
        (regression.runner, *regression.range),
        *sorted(astuple(one.series) for one in regression.verdicts),
    ]
    return hashlib.sha256(repr(asked).encode()).hexdigest()[:16]
