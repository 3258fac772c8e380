"""Summaries of machines for the dashboard's overview, made up instead of judged."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from torchperf_ci.series.run_comparison import Trend
from torchperf_ci.web.catalogue import RunEntry
from torchperf_ci.web.changes import ChangeEntry
from torchperf_ci.web.overview import GroupEntry, GroupSummary

if TYPE_CHECKING:
    from torchperf_ci.series.points import Series, SeriesGroup

START, DAY, NIGHTS = 1_767_225_600, 86_400, 300
MACHINES = ("H100", "MI300X", "B200", "Xeon", "Neoverse")


def run(group: SeriesGroup, night: int) -> RunEntry:
    name = f"{MACHINES.index(group.arch):05x}{night:05x}"
    return RunEntry(name, name, *group, "main", f"{night:040x}", START + night * DAY, START + night * DAY, "")


def summary(runs: list[RunEntry], series: list[Series], began: int = START) -> GroupSummary:
    change = (began, "regressed", 1.0, 1.1, 1.1, 1.09, 1.11, "a" * 40, "b" * 40, None, None)
    changes = [ChangeEntry(one.id, asdict(one), "ms", *change) for one in series]
    trend = Trend([START + day * DAY for day in range(90)], [1.0] * 90, [len(series)] * 90)
    counts = {"pass": len(series)}
    counted = (len(series), len(changes), 0, [], False, runs[0].time - runs[1].time)
    return GroupSummary(GroupEntry(runs[0], runs[1].id, counts, 0, [], trend, *counted), changes)
