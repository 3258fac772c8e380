"""The loop: ask what to do next, do it, and keep what came of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torchperf_ci.bisect.reasoning.investigation import next_step
from torchperf_ci.bisect.reasoning.question import as_known
from torchperf_ci.errors import EnvironmentUnderTestError

if TYPE_CHECKING:
    from torchperf_ci.bisect.limits import Limits
    from torchperf_ci.bisect.measuring.laboratory import Laboratory
    from torchperf_ci.bisect.reasoning.facts import Facts
    from torchperf_ci.bisect.reasoning.question import Measure, Question
    from torchperf_ci.bisect.state import State
    from torchperf_ci.bisect.telling.progress import Progress


def investigate(
    question: Question, laboratory: Laboratory[Any], state: State, limits: Limits, shown: Progress
) -> str:
    """Go on until nothing more can be learnt, or a limit ends it; which one, if it was one.

    Raises :class:`EnvironmentUnderTestError` where good or bad cannot be built, which is tried twice.
    """
    while (step := next_step(question := as_known(question, state.facts), state.facts)) is not None:
        if limit := limits.ended_by(state.facts):
            return limit
        if not limits.may_build(state.facts, _unbuilt(step, state.facts)):
            step = next_step(question, state.facts, may_build=False)
        if step is None or not limits.may_build(state.facts, _unbuilt(step, state.facts)):
            return "--max-builds"
        if _are_built(step, question, laboratory, state, shown):
            shown.measures(step)
            found = laboratory.measure(step.probe, step.base, step.head, step.purpose, step.draws)
            state.add(found)
            shown.learnt(found, state.facts)
    return ""


def _unbuilt(step: Measure, facts: Facts) -> int:
    """Of the two builds, how many have to be made first."""
    return len({*_builds(step)} - facts.made)


def _builds(step: Measure) -> tuple[tuple[int, int], ...]:
    """Positions and draws."""
    return tuple(zip((step.base, step.head), step.draws, strict=True))


def _are_built(
    step: Measure, question: Question, laboratory: Laboratory[Any], state: State, shown: Progress
) -> bool:
    for position, draw in _builds(step):
        if (position, draw) in state.facts.made:
            continue
        shown.builds(position)
        build = laboratory.build(position, draw)
        state.add(build)
        shown.learnt(build, state.facts)
        if not build.ok:
            if position in {0, question.bad} & state.facts.unusable - state.facts.unsettled:
                which = "bad" if position else "good"
                msg = f"the {which} commit cannot be built, so there is nothing to compare with: {build.why}"
                raise EnvironmentUnderTestError(msg)
            return False
    return True
