"""Two wheels are two builds of PyTorch, and each is faster or slower by luck: may that be what a series shows?"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import asdict, replace
from itertools import count
from math import log
from typing import TYPE_CHECKING

import numpy as np

from torchperf_ci.check.comparable import of_newest_runs
from torchperf_ci.check.logs import log_values
from torchperf_ci.series.matrix import matrix
from torchperf_ci.stats.build_luck import build_luck
from torchperf_ci.stats.past import BASELINE
from torchperf_ci.verdicts.luck import EVIDENCE, BuildLuck

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from torchperf_ci.check.comparable import Pairing
    from torchperf_ci.series.policy import MetricRule
    from torchperf_ci.series.series import Point, Series
    from torchperf_ci.stats.build_luck import TauEstimate
    from torchperf_ci.verdicts.verdict import Verdict


def beside_luck(
    verdicts: Sequence[Verdict], pairings: Sequence[Pairing], rules: Mapping[Series, MetricRule]
) -> Sequence[Verdict]:
    """The same verdicts. Those on ratios that are, or look, worse since another build of PyTorch say whether luck of
    builds makes as much."""
    found = {verdict.series: verdict for verdict in verdicts}
    new = {
        one.series: builds
        for one in pairings
        if rules[one.series].kind == "ratio" and (builds := _turn(one, found[one.series]))
    }
    kinds: dict[object, dict[Series, Sequence[Point]]] = defaultdict(dict)
    for one in pairings:
        kinds[one.series.group, one.series.metric][one.series] = one.old
    for kind in {(series.group, series.metric) for series in new}:
        for series, luck in zip(kinds[kind], _luck(kinds[kind]), strict=True):
            if series in new:
                found[series] = _told(found[series], luck, new[series])
    return list(found.values())


def _turn(pairing: Pairing, verdict: Verdict) -> tuple[int, int] | None:
    """Of how many builds the past is, and the newest runs that look worse, where the last of these is none of them."""
    if not (verdict.verdict == "regressed" or verdict.candidate) or verdict.effect is None:
        return None
    newest = of_newest_runs([*pairing.old, *pairing.new], verdict.evidence["window"])
    runs = {point.run for point in newest}
    before = of_newest_runs([point for point in pairing.old if point.run not in runs], BASELINE)
    old, new = ({point.info.get("torch", "") for point in some} - {""} for some in (before, newest))
    is_other = old and newest[-1].info.get("torch", "") not in {"", *old}
    return (len(old), len(new)) if is_other else None


def _luck(past: Mapping[Series, Sequence[Point]]) -> Sequence[TauEstimate]:
    """What the past of series of one kind, all of them ratios, tells of each."""
    numbers = defaultdict(count().__next__, {"": -1})
    numbered = {
        series: [replace(point, value=float(numbers[point.info.get("torch", "")])) for point in row]
        for series, row in past.items()
    }
    known = matrix(past)
    builds = np.nan_to_num(matrix(numbered).values, nan=-1.0)
    values = log_values(np.where(_is_first(known.sittings), known.values, np.nan))
    return build_luck(values, builds.astype(np.int64))


def _is_first(sittings: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Whether a run is the first one of its sitting, in each row."""
    found = np.zeros(sittings.shape, dtype=bool)
    for row, one in zip(found, sittings, strict=True):
        row[np.unique(one, return_index=True)[1]] = True
    return found


def _told(verdict: Verdict, luck: TauEstimate, builds: tuple[int, int]) -> Verdict:
    ratio = verdict.effect.ratio if verdict.effect else 1.0
    low, high = luck.quantile(0.025), luck.quantile(0.975)
    told = BuildLuck(luck.tau, low, high, luck.chance(log(ratio), builds))
    return replace(
        verdict, why=f"{verdict.why}; {told}", evidence={**verdict.evidence, EVIDENCE: asdict(told)}
    )
