"""The facts, sorted: what was read between which builds, and what it cost."""

from __future__ import annotations

import math
from itertools import pairwise
from statistics import mean
from typing import TYPE_CHECKING

import numpy as np

from torchperf_ci.stats.information import Price, chances_to_build
from torchperf_ci.stats.reading_errors import Readings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torchperf_ci.bisect.reasoning.facts import Facts, Reading
    from torchperf_ci.bisect.reasoning.question import Question
    from torchperf_ci.bisect.reasoning.segment import Segment


def within(facts: Facts, series: str, segment: Segment, luck: float) -> Readings:
    """What bears on a segment, positions counted from its first build.

    That are pairs with its first build, and pairs of neighbours among the builds that were measured.
    """
    inside = [
        reading
        for reading in facts.readings
        if series in reading.log_ratios and segment.before <= reading.base < reading.head <= segment.after
    ]
    tested = sorted({segment.before, segment.after, *(place for r in inside for place in (r.base, r.head))})
    neighbours = set(pairwise(tested))
    useful = [r for r in inside if r.base == segment.before or (r.base, r.head) in neighbours]
    bases, heads = ([getattr(r, side) - segment.before for r in useful] for side in ("base", "head"))
    values = np.array([r.log_ratios[series] for r in useful], np.float64)
    draws = np.array([r.draws for r in useful], np.intp).reshape(-1, 2)
    return Readings(np.array(bases, np.intp), np.array(heads, np.intp), values, draws, luck)


def series_of(facts: Facts) -> dict[str, str]:
    """The probe that yields each series, in the order in which they were first read."""
    return {series: reading.probe for reading in facts.readings for series in reading.log_ratios}


def price(question: Question, facts: Facts, segment: Segment, probe: str, *, may_build: bool) -> Price:
    """What reading each build of a segment takes, in seconds."""
    chance = chances_to_build(question.bad, sorted(facts.built - facts.unusable), sorted(facts.unusable))
    build = np.full(question.bad + 1, build_seconds(question, facts))
    build[list(facts.built)] = 0.0
    if not may_build:
        chance[build > 0] = 0.0
    chance[list(facts.unusable)] = 0.0
    part = slice(segment.before, segment.after + 1)
    again = build_seconds(question, facts) if question.rebuilds and may_build else math.inf
    return Price(pair_seconds(question, facts.readings, probe), build[part], chance[part], again)


def draw_of(facts: Facts, base: int, head: int, *, anew: bool) -> int:
    """The draw of head that was last read against the first one of base, or ``anew`` one that was neither read nor
    has failed."""
    read = [one.draws[1] for one in facts.readings if (one.base, one.head, one.draws[0]) == (base, head, 0)]
    if not anew:
        return max(read, default=0)
    others = [
        draw
        for one in facts.readings
        for end, draw in zip((one.base, one.head), one.draws, strict=True)
        if end == head
    ]
    failed = [build.draw for build in facts.builds if build.position == head and not build.ok]
    return max([*others, *failed], default=0) + 1


def build_seconds(question: Question, facts: Facts) -> float:
    """What a build has taken on average, else what is expected."""
    return mean([build.seconds for build in facts.builds] or [question.build_seconds])


def pair_seconds(question: Question, readings: Sequence[Reading], probe: str | None = None) -> float:
    """What a pair, of a probe or of all of them, has taken on average, else what is expected."""
    known = [reading.seconds for reading in readings if probe in (None, reading.probe)]
    return max(mean(known or [question.pair_seconds]), 1e-9)
