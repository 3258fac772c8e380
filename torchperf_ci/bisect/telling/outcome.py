"""How a search has ended, in a word and in the sentences beside it."""

from __future__ import annotations

import math
from statistics import median
from typing import TYPE_CHECKING

from torchperf_ci.bisect.telling.levels import moved_under_good

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from torchperf_ci.bisect.found import Found
    from torchperf_ci.bisect.reasoning.investigation import Investigation
    from torchperf_ci.bisect.reasoning.proof import Proof
    from torchperf_ci.bisect.reasoning.standing import Standing
    from torchperf_ci.culprits.culprit import Status


def status(found: Found) -> tuple[Status, str]:
    """The word for it, and why it is no other."""
    known = found.investigation
    if _is_found(known):
        return "found", ""
    if not known.probes:
        return "inconclusive", "nothing that was to be measured runs on the bad commit: choose another one"
    proofs = [one.confirmation for one in known.standings]
    if found.ended_by:
        return (
            "inconclusive",
            f"the limit of {found.ended_by} ended it: give more, and the same call goes on from here",
        )
    if gone := known.explained_by_luck:
        return "build", _gone_anew(gone)
    if known.regressed:
        return "inconclusive", " ".join(dict.fromkeys(_dead_ends(found)))
    if any(proof.word == "unknown" for proof in proofs):
        return "inconclusive", _not_told(proofs, known.question.min_effect)
    return _not_reproduced(found, proofs)


def _gone_anew(one: Standing) -> str:
    old, new = (math.expm1(median(log_ratios)) for log_ratios in one.first_and_anew)
    return (
        f"the first builds of bad and good differ by {old:+.1%}, and builds of them that were made anew by {new:+.1%}: "
        "it is the luck of a build, which no commit has brought"
    )


def _dead_ends(found: Found) -> Iterator[str]:
    """Why a search cannot go on."""
    for search in found.investigation.searches:
        refuted = [*search.segment.parts(search.members[0].refuted)]
        step = refuted[0] if len(refuted) == 1 else search.step
        if step is None and search.is_spent:
            yield (
                "the search has taken many times the pairs that would have shown one commit: several that are each too "
                "small may have done it together, or the machine is not steady."
            )
            continue
        if step is None:
            yield "no further measurement is expected to tell the suspects apart: it takes a quieter machine."
            continue
        proof, culprit = search.members[0].tried.get(step), found.line.words[step.after]
        if proof is None:
            yield f"everything points to {culprit}, but it or the one before could not be measured again to prove it."
            continue
        yield (
            f"everything points to {culprit}, but {len(proof.log_ratios)} fresh pairs of it and the one before do not "
            "prove it: it takes a quieter machine, or a larger change."
        )


def _not_told(proofs: Sequence[Proof], min_effect: float) -> str:
    open_ones = [proof.decision for proof in proofs if proof.word == "unknown" and proof.decision]
    noise = max(decision.noise for decision in open_ones)
    pairs = max(decision.effect.pairs for decision in open_ones)
    return (
        f"{pairs} pairs of bad and good, which spread by {noise:.1%}, do not tell a change of {min_effect:.1%}: it "
        "takes a quieter machine, or a larger --min-effect"
    )


def _not_reproduced(found: Found, proofs: Sequence[Proof]) -> tuple[Status, str]:
    """Whether good is as bad was, or bad as good was; where nobody knows the levels, the second."""
    known, levels = found.investigation, found.setting.levels
    now = moved_under_good(known.facts.readings, levels, known.question.min_effect)
    if not now:
        return "not-reproduced", _not_seen(proofs)
    told = (
        f"{name} is {value:.4g}, was {levels[name].old:.4g} and then {levels[name].new:.4g}"
        for name, value in now.items()
    )
    why = "the good build itself is as slow here now as bad was: the machine or what is beside the code has changed"
    return "environment", f"{why} ({'; '.join(told)})"


def _not_seen(proofs: Sequence[Proof]) -> str:
    decisions = [proof.decision for proof in proofs if proof.decision]
    most = max(decisions, key=lambda decision: decision.effect.ratio)
    change = f"{most.effect.ratio - 1:+.1%} ({most.effect.low - 1:+.1%}…{most.effect.high - 1:+.1%})"
    return (
        f"bad is not slower than good on this machine: the largest change of {len(decisions)} series is {change}, and "
        f"one of {most.detectable:.1%} would have been expected to show"
    )


def notes(found: Found) -> Iterator[str]:
    """What is left open beside culprits that were found, and what did not run on bad."""
    known = found.investigation
    if _is_found(known) and known.searches:
        because = (
            f"the limit of {found.ended_by} ended the search" if found.ended_by else "it could not be located"
        )
        yield f"the culprits do not explain all of the change, and {because}"
    if known.facts.repeated:
        yield (
            "a commit that was built anew came out the same, byte for byte: nothing more was built anew, and what is "
            "told is of these builds (--build is given a $SEED to shuffle its linking by)"
        )
    for failure in known.facts.failures:
        if failure.position == known.question.bad:
            why = failure.why.partition("\n")[0] or "it does not say why"
            yield f"{failure.probe} does not run on the bad commit: {why}"
    quiet = [one.series for one in known.standings if one.confirmation.word == "not slower"]
    if quiet and known.regressed:
        yield f"not slower on this machine: {', '.join(quiet)}"


def _is_found(known: Investigation) -> bool:
    return any(one.culprits for one in known.regressed)
