"""What a bisection is going to cost, said before it begins."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from torchperf_ci.actions import literal, one_line
from torchperf_ci.bisect.reasoning.proof import FEWEST_TO_VERIFY
from torchperf_ci.bisect.reasoning.question import Question
from torchperf_ci.bisect.setting import BUILD_SECONDS, builder_of

if TYPE_CHECKING:
    from torchperf_ci.bisect.limits import Limits
    from torchperf_ci.bisect.line.line import Line
    from torchperf_ci.options import BisectOptions

TO_CONFIRM = 8
"""Pairs until it is clear that bad is slower, at a noise of a third of the effect."""
A_HALVING = 2
"""Pairs until half of the suspects are ruled out, at the same noise."""


@dataclass(frozen=True)
class Expected:
    """Builds, pairs, and seconds for all of them."""

    builds: int
    pairs: int
    seconds: float


def expected(suspects: int, probes: int, build_seconds: float) -> Expected:
    """For one culprit."""
    halvings = math.ceil(math.log2(suspects + 1))
    builds, pairs = 2 + halvings, (TO_CONFIRM + FEWEST_TO_VERIFY) * probes + A_HALVING * halvings
    return Expected(builds, pairs, builds * build_seconds + pairs * Question.pair_seconds)


def show_plan(line: Line[Any], options: BisectOptions, limits: Limits) -> None:
    """Say on standard error what will be done, before anything is; nothing is asked."""
    measured = [options.command] if options.command else options.workload or options.suite
    measured = measured or ["what got worse by the verdicts"]
    build = BUILD_SECONDS[builder_of(options)]
    cost = expected(len(line.weights), len(measured), build)
    bounds = {
        "builds": limits.builds,
        "pairs": limits.pairs,
        "seconds": limits.deadline and round(limits.deadline.left),
    }
    expected_cost = (
        f"expected: {cost.builds} builds and {cost.pairs} pairs of processes, {_time(cost.seconds)} if a build takes "
        f"{_time(build)} and a pair {_time(Question.pair_seconds)}"
    )
    lines = [
        f"good: {line.words[0]}",
        f"bad:  {line.words[-1]}",
        f"{_count(len(line.weights))}; measured: {', '.join(measured)}",
        expected_cost,
        *(f"at most {most} {what}" for what, most in bounds.items() if most is not None),
    ]
    with literal():
        sys.stderr.writelines(f"{one_line(text)}\n" for text in lines)


def _count(suspects: int) -> str:
    return f"{suspects} suspects" if suspects > 1 else "1 suspect"


def _time(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
