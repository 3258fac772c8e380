"""How small a change the gate would see in the next run: of each series, and of most of those of one metric."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from math import isnan, log1p
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np

from torchperf_ci.check.logs import log_values, share
from torchperf_ci.series.matrix import matrix
from torchperf_ci.stats.gate import judge
from torchperf_ci.stats.past import MIN_HISTORY

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from torchperf_ci.series.matrix import Matrix
    from torchperf_ci.series.policy import MetricRule
    from torchperf_ci.series.series import Group, Points, Series
    from torchperf_ci.stats.gate import Judged


@dataclass(frozen=True)
class Sight:
    """What is seen of one series: shares of its value, None where there is too little past."""

    series: Series
    history: int
    noise: float | None
    detectable: float | None
    min_effect: float


@dataclass(frozen=True)
class SuiteSight:
    """What is seen of the series of one metric on one kind of machine, of which so many have past enough.

    ``noise`` and ``detectable`` are those of the median series, ``worst`` is the largest ``detectable``; None where no
    series has past enough. ``enough`` is the share of all series of which the smallest change that matters is seen.
    """

    group: Group
    metric: str
    series: int
    judged: int
    noise: float | None
    detectable: float | None
    worst: float | None
    enough: float


@dataclass(frozen=True)
class Sensitivity:
    """Both, in the order of the series."""

    series: Sequence[Sight]
    suites: Sequence[SuiteSight]

    def as_json(self) -> dict[str, Any]:
        """The same as data."""
        return {
            "series": [asdict(sight) for sight in self.series],
            "suites": [{**asdict(suite), "group": suite.group._asdict()} for suite in self.suites],
        }


def sensitivity(points: Points, rules: Mapping[Series, MetricRule]) -> Sensitivity:
    """The sensitivity for all ``points``, which are ratios."""
    found = matrix(points)
    min_effect = np.array([log1p(rules[series].min_effect) for series in found.series])
    judged = _next_run(found, min_effect)
    sights = [
        Sight(
            series,
            int(judged.history[row]),
            _share(judged.sigma[row]),
            _share(judged.detectable[row]) if judged.history[row] >= MIN_HISTORY else None,
            rules[series].min_effect,
        )
        for row, series in enumerate(found.series)
    ]
    return Sensitivity(sights, _suites(sights))


def _next_run(past: Matrix, min_effect: NDArray[np.float64]) -> Judged:
    """The judgement on a run that is still to come."""
    rows = len(past.values)
    nobody = np.full((rows, 1), -1, dtype=np.int64)
    return judge(
        np.hstack([log_values(past.values), np.full((rows, 1), np.nan)]),
        min_effect,
        np.hstack([past.jobs, nobody]),
        past.groups,
        sittings=np.hstack([past.sittings, nobody]),
    )


def _suites(sights: Iterable[Sight]) -> list[SuiteSight]:
    members: dict[tuple[Group, str], list[Sight]] = {}
    for sight in sights:
        members.setdefault((sight.series.group, sight.series.metric), []).append(sight)
    return [_suite(group, metric, series) for (group, metric), series in members.items()]


def _suite(group: Group, metric: str, series: Sequence[Sight]) -> SuiteSight:
    seen = [(one.noise or 0.0, one.detectable) for one in series if one.detectable is not None]
    noises, changes = zip(*seen, strict=True) if seen else ((), ())
    return SuiteSight(
        group,
        metric,
        len(series),
        len(seen),
        noise=median(noises) if seen else None,
        detectable=median(changes) if seen else None,
        worst=max(changes) if seen else None,
        enough=sum(one.detectable is not None and one.detectable <= one.min_effect for one in series)
        / len(series),
    )


def _share(log: float) -> float | None:
    return None if isnan(log) else share(log)
