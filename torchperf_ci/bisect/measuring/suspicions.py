"""What a file of verdicts gives a bisection to look for, and between which commits.

The file may come from anywhere: nothing in it is believed but names that are known here and numbers within bounds.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from torchperf_ci.bench.batch import LARGEST
from torchperf_ci.bench.selection import Grid, Selection, select
from torchperf_ci.bisect.measuring.probes import WorkloadProbe
from torchperf_ci.metrics import GRAPH_BREAKS, bisected_as
from torchperf_ci.options.values import BACKENDS, DTYPES
from torchperf_ci.stats.build_luck import LEAST, MOST, USUAL
from torchperf_ci.verdicts.luck import luck_of
from torchperf_ci.verdicts.turn import ranges, turn_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from torchperf_ci.bench.case import Case
    from torchperf_ci.bench.selection import Known
    from torchperf_ci.series.series import Series
    from torchperf_ci.verdicts.turn import Range
    from torchperf_ci.verdicts.verdict import Judgement, Verdict

NO_NUMBER = (
    "what fails has no number to bisect by; git bisect run finds the commit since which a command fails"
)


@dataclass(frozen=True)
class LeftOut:
    """A series that got worse and that cannot be bisected, and why."""

    series: str
    why: str


@dataclass(frozen=True)
class Suspicions:
    """One probe a case, with all metrics of it that got worse; and the rest."""

    probes: tuple[WorkloadProbe, ...]
    left_out: tuple[LeftOut, ...]


def probes_of(judgement: Judgement, known: Known, device: str) -> Suspicions:
    """What got worse, or looks as if, as probes for the catalogue ``known`` on a torch ``device``."""
    metrics: dict[Case, list[str]] = defaultdict(list)
    named: dict[Case, str] = {}
    left_out = []
    for verdict in _worse(judgement):
        case = _case(verdict, known, device)
        if isinstance(case, str):
            left_out.append(LeftOut(str(verdict.series), case))
        else:
            named.setdefault(case, verdict.series.device)
            metrics[case].append(bisected_as(verdict.series.metric))
    probes = (
        WorkloadProbe(case, tuple(dict.fromkeys(found)), named[case]) for case, found in metrics.items()
    )
    return Suspicions(tuple(probes), tuple(left_out))


def ends_of(judgement: Judgement) -> Sequence[Range]:
    """Between which commits everything that can be bisected got worse; empty where the file does not tell.

    First those of the repository whose job measured, then those of PyTorch: which of them are meant, the repository
    that is bisected knows. Several ranges give the one that holds them all.
    """
    return ranges([turn_of(one) for one in _worse(judgement) if bisected_as(one.series.metric)])


def luck_expected(judgement: Judgement) -> float:
    """How far builds of one code lie apart, as the past of what got worse has it; of several series the most."""
    told = [luck.tau for one in _worse(judgement) if (luck := luck_of(one))]
    return min(max(LEAST, *told), MOST) if told else USUAL


def _worse(judgement: Judgement) -> Sequence[Verdict]:
    return [one for one in judgement.verdicts if one.is_red or one.candidate]


def _case(verdict: Verdict, known: Known, device: str) -> Case | str:
    """The case, or why there is none."""
    series = verdict.series
    if verdict.verdict == "broken":
        return NO_NUMBER
    if not bisected_as(series.metric):
        return f"pairs do not tell {series.metric!r} of a workload: bisect it by --command"
    if series.model not in known.workloads:
        return f"there is no workload {series.model!r} at the good commit: name its --suite, or bisect by --command"
    grid = Grid((series.model,), (series.mode,), (series.dtype,), (series.backend,))
    if not _runs(series, known):
        return f"{series.model} has no {series.metric} in mode {series.mode!r}, {series.dtype!r} and {series.backend!r}"
    return select(Selection([grid], batch_size=_batch_size(verdict.evidence)), known, device)[0]


def _runs(series: Series, known: Known) -> bool:
    modes = known.workloads[series.model]["modes"]
    if series.metric == GRAPH_BREAKS and series.backend == "eager":
        return False
    return series.mode in modes and series.dtype in DTYPES and series.backend in BACKENDS


def _batch_size(evidence: Mapping[str, Any]) -> int | None:
    """The batch size of the verdict's pairs; None for the workload's own."""
    size = evidence.get("batch_size")
    return size if isinstance(size, int) and not isinstance(size, bool) and 1 <= size <= LARGEST else None
