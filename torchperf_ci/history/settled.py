"""Values that are the same in each run, as counts and outcomes are: a change is simply where another value stays."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from torchperf_ci.history.levels import Step
from torchperf_ci.stats.effect import Effect

if TYPE_CHECKING:
    from collections.abc import Sequence

STAYS = 2
"""Runs in a row with the same value from which on it is a level: one failed run alone is none."""


def settled_steps(values: Sequence[float]) -> list[Step]:
    """The steps between levels; a value that does not stay belongs to the level before it."""
    steps: list[Step] = []
    level: float | None = None
    place = 0
    for value, run in groupby(values):
        length = len(list(run))
        if length >= STAYS:
            if level is not None and value != level:
                steps.append(Step(place, level, value, _effect(level, value)))
            level = value
        place += length
    return steps


def _effect(old: float, new: float) -> Effect | None:
    """The exact ratio, where there is one."""
    return Effect(new / old, new / old, new / old, pairs=0) if old > 0 and new > 0 else None
