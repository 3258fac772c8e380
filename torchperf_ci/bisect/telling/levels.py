"""Is the good build itself as slow here as the bad one was? Then it is not the code that has changed."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from torchperf_ci.metrics import UP
from torchperf_ci.series import policy

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from torchperf_ci import config
    from torchperf_ci.bisect.reasoning.facts import Reading
    from torchperf_ci.machine.devices.base import Identity
    from torchperf_ci.verdicts.verdict import Judgement, Verdict


@dataclass(frozen=True)
class Levels:
    """What a series measured before it got worse and after, in its own unit; ``worse`` is ln(new/old), above 0."""

    old: float
    new: float
    worse: float

    def is_at_new(self, value: float) -> bool:
        """Whether a value is nearer to the new level than to the old, as ratios go."""
        return value > 0 and abs(math.log(value / self.new)) < abs(math.log(value / self.old))


def levels_of(
    judgement: Judgement, machine: Identity, rules: Mapping[str, config.Rule]
) -> Mapping[str, Levels]:
    """Of the series that verdicts say got worse on such a machine, by name: numbers of another one tell nothing here.

    ``rules`` are the configuration's directions.
    """
    found = {}
    for verdict in judgement.verdicts:
        here = verdict.series.device == machine.name and verdict.series.arch in ("", machine.type)
        if here and (levels := _levels(verdict, rules)):
            found[str(verdict.series)] = levels
    return found


def moved_under_good(
    readings: Sequence[Reading], levels: Mapping[str, Levels], min_effect: float
) -> Mapping[str, float]:
    """What good measures now of each series, if that is the new level of all of them; empty if not, or if unknown."""
    told = {name: one for name, one in levels.items() if one.worse >= math.log1p(min_effect)}
    now = {name: _of_good(readings, name) for name in told}
    known = {name: value for name, value in now.items() if value is not None}
    return known if all(told[name].is_at_new(value) for name, value in known.items()) else {}


def _levels(verdict: Verdict, rules: Mapping[str, config.Rule]) -> Levels | None:
    old, new = verdict.old or 0.0, verdict.new or 0.0
    direction = policy.rule(verdict.series.metric, rules).direction
    if not direction or old <= 0 or new <= 0:
        return None
    return Levels(old, new, math.log(old / new if direction == UP else new / old))


def _of_good(readings: Sequence[Reading], series: str) -> float | None:
    values = [one.values[series] for one in readings if one.base == 0 and series in one.values]
    return median(values) if values else None
