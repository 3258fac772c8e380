"""How often the gate would have raised an alarm in a team's own past, and how often that would have been false."""

from __future__ import annotations

from math import log1p
from typing import TYPE_CHECKING

import numpy as np

from torchperf_ci.check.logs import log_values
from torchperf_ci.errors import UsageError
from torchperf_ci.series.matrix import matrix
from torchperf_ci.stats.calibration import Alarms, false_alarms, replayed
from torchperf_ci.stats.past import MIN_HISTORY, NEWEST

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torchperf_ci.series.policy import Rule
    from torchperf_ci.series.series import Points, Series

FEWEST_RUNS = MIN_HISTORY + NEWEST
"""Runs that a past must have for the newest of them to be judged."""
MONTH = 30


def calibrate(points: Points, rules: Mapping[Series, Rule]) -> tuple[Alarms, Alarms]:
    """The alarms of the past as it was, and of the same past shuffled, in which nothing changes."""
    found = matrix(points)
    runs = found.values.shape[1]
    if runs < FEWEST_RUNS:
        msg = f"the past has {runs} runs, and calibrating takes at least {FEWEST_RUNS}"
        raise UsageError(msg)
    values = log_values(found.values)
    min_effect = np.array([log1p(rules[series].min_effect) for series in found.series])
    return (
        replayed(values, min_effect, found.jobs, found.groups),
        false_alarms(values, min_effect, found.jobs, found.groups),
    )


def sentences(past: Alarms, shuffled: Alarms) -> list[str]:
    """Both in words; better and worse together."""
    false_month = MONTH * shuffled.proven / max(shuffled.runs, 1)
    month = (
        f"So a month of {MONTH} nights would have had {false_month:.2g} false changes that history alone proves, "
        "better and worse together; only the worse ones fail a job."
    )
    return [
        f"{past.runs} runs of the past, each judged by those before it: {_rates(past)}; real changes are among them.",
        f"{shuffled.runs} times the same runs shuffled, so that nothing has changed: {_rates(shuffled)}.",
        month,
    ]


def _rates(alarms: Alarms) -> str:
    runs = max(alarms.runs, 1)
    share = alarms.candidates / max(alarms.judged, 1)
    return (
        f"{alarms.candidates / runs:.3g} candidates ({share:.2%} of {alarms.judged / runs:.0f} series) "
        f"and {alarms.proven / runs:.2g} proven changes a run"
    )
