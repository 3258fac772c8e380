"""How small a change the gate would see in the next run, of each series and of all of one metric together."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from math import isnan, log1p
from typing import TYPE_CHECKING, Any

import numpy as np

from torchperf_ci.check.logs import log_values, share
from torchperf_ci.series.matrix import Matrix, matrix
from torchperf_ci.stats.gate import judge
from torchperf_ci.stats.noise import row_median

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from torchperf_ci.series.policy import Rule
    from torchperf_ci.series.series import Group, Points, Series

    Floats = NDArray[np.float64]


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
    """What is seen of the geometric mean over ``series`` series of one metric, on one kind of machine."""

    group: Group
    metric: str
    series: int
    noise: float | None
    detectable: float | None


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


def sensitivity(points: Points, rules: Mapping[Series, Rule]) -> Sensitivity:
    """The sensitivity for all ``points``, which are ratios."""
    found = matrix(points)
    values = log_values(found.values)
    min_effect = np.array([log1p(rules[series].min_effect) for series in found.series])
    sigma, detectable, history = _next_run(values, min_effect, found.jobs, found.groups)
    sights = [
        Sight(
            series, int(history[row]), _share(sigma[row]), _share(detectable[row]), rules[series].min_effect
        )
        for row, series in enumerate(found.series)
    ]
    return Sensitivity(sights, _suites(found, values))


def _next_run(
    values: Floats,
    min_effect: Floats,
    jobs: NDArray[np.int64] | None = None,
    groups: NDArray[np.int64] | None = None,
) -> tuple[Floats, Floats, NDArray[np.int64]]:
    """σ, the detectable change and the length of the past, as a run that is still to come would be judged."""
    empty = np.full((len(values), 1), np.nan)
    nobody = np.full((len(values), 1), -1, dtype=np.int64)
    judged = judge(
        np.hstack([values, empty]), min_effect, None if jobs is None else np.hstack([jobs, nobody]), groups
    )
    return judged.sigma, judged.detectable, judged.history


def _suites(found: Matrix, values: Floats) -> list[SuiteSight]:
    """Machine and metric by machine and metric: the mean of the series' deviations from their levels, run by run."""
    deviations = values - row_median(values)[:, None]
    members = [
        np.flatnonzero(found.groups == number) for number in range(int(found.groups.max(initial=-1)) + 1)
    ]
    means = np.array([_column_means(deviations[rows]) for rows in members])
    if not members:
        return []
    sigma, detectable, _ = _next_run(means, np.zeros(len(members)))
    return [
        SuiteSight(
            found.series[rows[0]].group,
            found.series[rows[0]].metric,
            len(rows),
            _share(sigma[number]),
            _share(detectable[number]),
        )
        for number, rows in enumerate(members)
    ]


def _column_means(values: Floats) -> Floats:
    counts = (~np.isnan(values)).sum(axis=0)
    sums = np.nansum(values, axis=0)
    return np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)


def _share(log: float) -> float | None:
    return None if isnan(log) else share(log)
