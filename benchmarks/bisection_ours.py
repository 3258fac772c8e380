"""Run the search of `torchperf bisect` on a simulated range; all costs are in runs."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from torchperf_ci.bisect.reasoning.evidence import (
    TRIES,
    BisectFacts,
    BisectQuestion,
    BisectReading,
    BuildAttempt,
)
from torchperf_ci.bisect.reasoning.investigation import Investigation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bisection_world import Step, World

    from torchperf_ci.bisect.reasoning.culprit_search import CulpritSearch
    from torchperf_ci.bisect.reasoning.evidence import PlannedPair

MIN_EFFECT = 0.03
BUILD, PAIR = 10, 2
"""What a build and a pair cost, in runs."""
PROBE = "time"
MAX_PAIRS = 1000
"""A search that takes more does not end."""


@dataclass
class Played:
    """What came of one bisection.

    ``claims`` are the steps that it took for culprits before it set out to prove them, each with its probability;
    ``sets`` the credible sets of what it left unresolved. ``aborted`` is one that gave up, as an end was not built;
    ``is_luck`` one that ended with `build`: rebuilds of bad are not slower.
    """

    named: Sequence[Step] = ()
    claims: dict[Step, float] = field(default_factory=dict)
    sets: list[set[int]] = field(default_factory=list)
    aborted: bool = False
    is_luck: bool = False


def bisected(
    world: World, *, luck: float = 0.0, rebuilds: bool = False, series: int = 1, others: int = 0
) -> Played:
    """Bisect a simulated range, of ``series`` that are read at once and are equal, and ``others`` beside them.

    ``luck`` is the spread of builds that is expected beforehand; 0 stands for sources that are imported as they are.
    ``rebuilds`` says whether builds can be drawn anew.
    """
    weights = np.full(world.n, 1 / world.n)
    question = BisectQuestion(
        weights, [PROBE], MIN_EFFECT, BUILD, PAIR, world.commits.reverts, luck, rebuilds
    )
    facts, played = BisectFacts(), Played()
    while world.pairs < MAX_PAIRS:
        known = Investigation(question, facts)
        step = known.next_step()
        if step is None:
            break
        _claim(known, step, played.claims)
        facts = _learnt(world, facts, step, series, others)
        if any(end in facts.unbuilt and facts.tries[end] >= TRIES for end in (0, world.n)):
            played.aborted = True
            return played
    known = Investigation(question, facts)
    steps = {step for one in known.regressed for step in one.culprits}
    played.named = sorted((step.before, step.after) for step in steps)
    played.is_luck = known.explained_by_luck is not None
    played.sets = [set(search.suspects()) for search in known.searches]
    return played


def _claim(known: Investigation, step: PlannedPair, claims: dict[Step, float]) -> None:
    """Keep the probability of what is to be proven from now on."""
    ends = (step.base, step.head)
    if step.purpose == "verify" and ends not in claims:
        for search in known.searches:
            if _located(search) == ends:
                claims.setdefault(ends, float(search.odds.gaps.max()))


def _located(search: CulpritSearch) -> Step | None:
    return (search.step.before, search.step.after) if search.step else None


def _learnt(world: World, facts: BisectFacts, step: PlannedPair, series: int, others: int) -> BisectFacts:
    """The facts after a step, or after the first build that it failed at."""
    for position, draw in zip((step.base, step.head), step.draws, strict=True):
        if (position, draw) not in facts.made:
            made = BuildAttempt(position, world.build(position, draw, again=True), BUILD, draw=draw)
            facts = replace(facts, builds=(*facts.builds, made))
            if not made.ok:
                return facts
    if step.head_first and not world.noise.in_either_order:
        read = -world.pair(step.head, step.base, step.draws[::-1])
    else:
        read = world.pair(step.base, step.head, step.draws)
    every = [read] * series + world.beside(step.base, step.head, step.draws, others)
    log_ratios = {f"{PROBE} {number}": value for number, value in enumerate(every)}
    reading = BisectReading(
        step.probe,
        step.base,
        step.head,
        log_ratios,
        step.purpose,
        PAIR,
        draws=step.draws,
        head_first=step.head_first,
    )
    return replace(facts, readings=(*facts.readings, reading))
