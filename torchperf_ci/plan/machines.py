"""Which runner measured a series: the records that each job has delivered know their machine."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from torchperf_ci.records.folders import folder_of
from torchperf_ci.series.records import points_of_records

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from torchperf_ci.plan.matrix import Job
    from torchperf_ci.series.series import Series

Machine = tuple[str, str]
"""A device and an architecture, as series have them."""


@dataclass(frozen=True)
class Machines:
    """The runner of each case that was measured, and of each machine. ``only`` is the runner where there is one."""

    by_case: Mapping[Series, str]
    by_machine: Mapping[Machine, str]
    only: str = ""

    def runner_of(self, series: Series) -> str:
        """The runner whose job measured the series, else one like it; empty where nobody knows."""
        near = self.by_machine.get((series.device, series.arch))
        return self.by_case.get(_case(series)) or near or self.only


def machines_of(jobs: Sequence[Job], records: Path) -> Machines:
    """Who measured what, of the ``jobs`` whose artifacts lie below ``records``. A job without any tells nothing."""
    by_case: dict[Series, str] = {}
    by_machine: dict[Machine, str] = {}
    for job in jobs:
        folder = folder_of(records, job.name, len(jobs))
        for series in points_of_records([folder]).points if folder.is_dir() else ():
            by_case.setdefault(_case(series), job.runner)
            by_machine.setdefault((series.device, series.arch), job.runner)
    runners = {job.runner for job in jobs}
    return Machines(by_case, by_machine, "".join(runners) if len(runners) == 1 else "")


def _case(series: Series) -> Series:
    """Without what fresh records need not say, and what is the same for all metrics."""
    return replace(series, repo="", benchmark="", metric="")
