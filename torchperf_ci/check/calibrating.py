"""How often the gate would have raised an alarm in a team's own past, and how often that would have been false."""

from __future__ import annotations

from dataclasses import replace
from math import log1p
from typing import TYPE_CHECKING

import numpy as np

from torchperf_ci.check.logs import log_values
from torchperf_ci.errors import UsageError
from torchperf_ci.series.matrix import matrix
from torchperf_ci.stats.calibration import Alarms, Recorded, false_alarms, replayed
from torchperf_ci.stats.past import MIN_HISTORY, NEWEST
from torchperf_ci.stats.single_run import FEWEST_REPETITIONS, Repetitions
from torchperf_ci.wording import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from torchperf_ci.series.policy import MetricRule
    from torchperf_ci.series.series import Points, Series

FEWEST_RUNS = MIN_HISTORY + NEWEST
"""Runs that a past must have for the newest of them to be judged."""
MONTH = 30


def calibrate(points: Points, rules: Mapping[Series, MetricRule]) -> tuple[Alarms, Alarms]:
    """The alarms of the past as it was, and of the same past shuffled, in which nothing changes.

    Raises :class:`UsageError` where the past is too short.
    """
    found = matrix(points)
    runs = found.values.shape[1]
    if runs < FEWEST_RUNS:
        msg = f"the past has {counted(runs, 'run')}, and calibrating takes at least {FEWEST_RUNS}"
        raise UsageError(msg)
    past = Recorded(
        values=log_values(found.values),
        min_effect=np.array([log1p(rules[series].min_effect) for series in found.series]),
        worse=np.array([rules[series].worse for series in found.series]),
        jobs=found.jobs,
        groups=found.groups,
        sittings=found.sittings,
        repetitions=Repetitions(*(log_values(matrix(_extremes(points, one)).values) for one in (min, max))),
    )
    return replayed(past), false_alarms(past)


def _extremes(points: Points, choose: Callable[[Sequence[float]], float]) -> Points:
    """The points with the lowest or the highest of their repetitions, where there are enough to agree."""
    return {
        series: [
            replace(
                point,
                value=choose(point.repetitions) if len(point.repetitions) >= FEWEST_REPETITIONS else None,
            )
            for point in row
        ]
        for series, row in points.items()
    }


def sentences(past: Alarms, shuffled: Alarms) -> list[str]:
    """Both in words; better and worse together."""
    false_month = MONTH * shuffled.proven / max(shuffled.runs, 1)
    month = (
        f"So a month of {MONTH} nights would have had {false_month:.2g} false changes that history alone proves, "
        "better and worse together; only the worse ones fail a job."
    )
    return [
        f"{past.runs} runs of the past, each judged by those before it: {_rates(past)}; real changes are among them.",
        f"{shuffled.runs} times the same runs in another order, so that nothing has changed: {_rates(shuffled)}.",
        month,
    ]


def _rates(alarms: Alarms) -> str:
    runs = max(alarms.runs, 1)
    share = alarms.candidates / max(alarms.judged, 1)
    return (
        f"{alarms.candidates / runs:.3g} candidates ({share:.2%} of {alarms.judged / runs:.0f} series) "
        f"and {alarms.proven / runs:.2g} proven changes a run"
    )
