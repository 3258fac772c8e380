"""The noise of series between runs, and the smallest change that the gate would detect in their next run."""

from __future__ import annotations

from dataclasses import dataclass
from math import log1p
from typing import TYPE_CHECKING

import numpy as np

from torchperf_ci.series.run_matrix import log_values, newest_machine, run_matrix
from torchperf_ci.stats.effect import share_of_log
from torchperf_ci.stats.gate import judge
from torchperf_ci.stats.past import MIN_HISTORY

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torchperf_ci.series.points import Points, Series
    from torchperf_ci.series.policy import MetricRule


@dataclass(frozen=True)
class SeriesSensitivity:
    """Noise and smallest detectable change of one series, as shares of its value; None if the past is too short."""

    series: Series
    history: int
    noise: float | None
    detectable: float | None
    min_effect: float


def sensitivity_of(points: Points, rules: Mapping[Series, MetricRule]) -> list[SeriesSensitivity]:
    """Return the sensitivity of each series of ratios on its newest machine, for a hypothetical next run.

    Series are judged together: how far runs deviate, and what the series of a job share, is learned from all of
    ``points``, so a series alone may get slightly other numbers than among those measured with it.
    """
    ratios = {series: row for series, row in points.items() if rules[series].kind == "ratio"}
    past = run_matrix(newest_machine(ratios))
    rows = len(past.values)
    nobody = np.full((rows, 1), -1, dtype=np.int64)
    judged = judge(
        np.hstack([log_values(past.values), np.full((rows, 1), np.nan)]),
        np.array([log1p(rules[series].min_effect) for series in past.series]),
        np.hstack([past.jobs, nobody]),
        past.groups,
        sessions=np.hstack([past.sessions, nobody]),
    )
    return [
        SeriesSensitivity(
            series,
            int(history),
            share_of_log(sigma) if history >= MIN_HISTORY else None,
            share_of_log(detectable) if history >= MIN_HISTORY else None,
            rules[series].min_effect,
        )
        for series, history, sigma, detectable in zip(
            past.series, judged.history, judged.sigma, judged.detectable, strict=True
        )
    ]
