"""From everything that is known to what is told."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from torchperf_ci.bisect.reasoning.question import Question
from torchperf_ci.bisect.reasoning.segment import Segment
from torchperf_ci.bisect.telling.outcome import notes, status
from torchperf_ci.culprits.culprit import (
    Change,
    Culprit,
    Location,
    Luck,
    MachineTime,
    Measurement,
    Skipped,
    Suspect,
)
from torchperf_ci.metrics import METRICS, UP
from torchperf_ci.series import policy
from torchperf_ci.stats.effect import Effect, paired_effect

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torchperf_ci.bisect.found import Found
    from torchperf_ci.bisect.line.commit import Commit
    from torchperf_ci.bisect.reasoning.investigation import Investigation
    from torchperf_ci.bisect.reasoning.proof import Proof
    from torchperf_ci.bisect.reasoning.standing import Standing


def conclude(found: Found, rules: Mapping[str, Any]) -> Location:
    """What one search came to. ``rules`` are the configuration's, which say of a metric which way is better."""
    known, names = found.investigation, found.line.names
    facts = known.facts
    word, why = status(found)
    return Location(
        status=word,
        good=names[0],
        bad=names[-1],
        why=why,
        runs=len(facts.readings),
        builds=len(facts.builds),
        seconds=MachineTime(sum(r.seconds for r in facts.readings), sum(b.seconds for b in facts.builds)),
        confirmed={
            one.series: _effect(one.confirmation, one.series, rules)
            for one in known.standings
            if one.confirmation.log_ratios
        },
        culprits=tuple(_culprit(found, step, rules) for step in _steps(known)),
        credible=_credible(found) if word == "inconclusive" else (),
        skipped=_skipped(found),
        notes=(*found.notes, *found.setting.notes, *notes(found), *found.looks.notes),
        luck=_luck(known),
        readings=tuple(
            Measurement(r.probe, names[r.base], names[r.head], r.purpose, r.log_ratios, r.seconds, r.draws)
            for r in facts.readings
        ),
    )


def shown_by(known: Investigation) -> Mapping[Segment, str]:
    """The culprits, each with the probe that shows it best."""
    return {step: _showing(known, step)[0][0].probe for step in _steps(known)}


def told_of(culprit: Culprit, commits: Mapping[str, Commit], repo_url: str) -> Culprit:
    """The culprit with what its commit says of itself."""
    commit = commits.get(culprit.commit or "")
    if commit is None:
        return culprit
    url = f"{repo_url}/commit/{commit.sha}" if repo_url.startswith("https://") else None
    return replace(
        culprit,
        author=commit.author,
        date=commit.date,
        subject=commit.subject,
        pull_request=commit.pull_request,
        url=url,
    )


def _steps(known: Investigation) -> list[Segment]:
    """The culprits. Where one series is proven on a step within that of another one, it is the narrower of the two."""
    proven = {step for one in known.regressed for step in one.culprits}
    return sorted({_narrowest(step, proven) for step in proven})


def _narrowest(step: Segment, proven: set[Segment]) -> Segment:
    """The one culprit that lies within a step, or the step itself: a probe may not run as close to it as others do."""
    inside = [other for other in proven - {step} if step.before <= other.before and other.after <= step.after]
    return inside[0] if len(inside) == 1 else step


def _culprit(found: Found, step: Segment, rules: Mapping[str, Any]) -> Culprit:
    known = found.investigation
    shown = _showing(known, step)
    changes = tuple(_change(one, own, rules) for one, own in shown)
    clearest, own = shown[0]
    names = tuple(found.line.names[step.before + 1 : step.after + 1])
    return Culprit(
        commit=names[0] if len(names) == 1 else None,
        set=names,
        posterior=_posterior(known, clearest, step),
        effect=_effect(clearest.tried[own], clearest.series, rules),
        series=changes,
        inside=found.looks.inside.get(step),
        builds=_builds(known, own),
    )


def _builds(known: Investigation, step: Segment) -> tuple[int, int] | None:
    """How many builds of either side of a step were measured to prove it; None where nothing is built."""
    if not known.question.luck:
        return None
    draws = [
        reading.draws
        for reading in known.facts.readings
        if reading.purpose == "verify" and (reading.base, reading.head) == (step.before, step.after)
    ]
    before, own = (len(set(of_side)) for of_side in zip(*draws, strict=True))
    return before, own


def _luck(known: Investigation) -> Luck | None:
    """What builds differ by by themselves."""
    if not known.question.luck:
        return None
    proofs = [proof for one in known.standings for proof in (one.confirmation, *one.tried.values())]
    learnt = [(len(proof.log_ratios), proof.by_build.tau) for proof in proofs if proof.by_build]
    if learnt and any(build.ok and build.draw for build in known.facts.builds):
        return Luck(max(learnt)[1], "rebuilds")  # of the proof that has seen most
    return Luck(known.question.luck, "expected" if known.question.luck == Question.luck else "history")


def _showing(known: Investigation, step: Segment) -> list[tuple[Standing, Segment]]:
    """The series that have a culprit there, and on which step: first those on this one, the clearest of them first."""
    proven = {own for one in known.regressed for own in one.culprits}
    shown = [(one, own) for one in known.regressed for own in one.culprits if _narrowest(own, proven) == step]
    return sorted(shown, key=lambda item: item[1] != step)


def _change(one: Standing, step: Segment, rules: Mapping[str, Any]) -> Change:
    proof, sign = one.tried[step], _sign(one.series, rules)
    effect = _effect(proof, one.series, rules)
    return Change(one.series, effect, tuple(sign * ratio for ratio in proof.log_ratios))


def _effect(proof: Proof, series: str, rules: Mapping[str, Any]) -> Effect:
    """That of the code, where builds have luck."""
    sign = _sign(series, rules)
    if proof.by_build is None or proof.decision is None:
        return paired_effect([sign * ratio for ratio in proof.log_ratios])
    effect = proof.decision.effect
    return effect if sign > 0 else effect.inverse()


def _sign(series: str, rules: Mapping[str, Any]) -> int:
    """−1 where a metric gets worse by falling: readings rise where things get worse."""
    return -1 if policy.rule(_metric(series, rules), rules).direction == UP else 1


def _metric(series: str, rules: Mapping[str, Any]) -> str:
    """The metric that the name of a series ends in, before how it was measured.

    Metrics and models may have several words: one of the table or the configuration is meant, else the fewest words
    that have a direction.
    """
    words = re.sub(r" \([^()]*\)$", "", series).split(" ")
    ends = [" ".join(words[first:]) for first in range(len(words))]
    named = [end for end in ends if end in rules or end in METRICS]
    return (named or [end for end in reversed(ends) if policy.rule(end, rules).direction] or [series])[0]


def _posterior(known: Investigation, one: Standing, step: Segment) -> float:
    """The probability of the step among the suspects between the culprits on either side, one of which it is."""
    others = [other for other in _steps(known) if other != step]
    before = max((other.after for other in others if other.after <= step.before), default=0)
    after = min((other.before for other in others if other.before >= step.after), default=known.question.bad)
    part = Segment(before, after)
    suspects = one.weigh(part).suspects
    return float(min(suspects[step.before - before : step.after - before].sum() / suspects.sum(), 1.0))


def _credible(found: Found) -> tuple[Suspect, ...]:
    """What is left of the suspects, the likeliest first."""
    left: dict[int, float] = {}
    for search in found.investigation.searches:
        for position, probability in search.suspects().items():
            left[position] = max(left.get(position, 0.0), probability)
    ranked = sorted(left.items(), key=lambda item: -item[1])
    return tuple(
        Suspect(found.line.names[position], probability, _subject(found, position))
        for position, probability in ranked
    )


def _subject(found: Found, position: int) -> str:
    return str(getattr(found.line.states[position], "subject", ""))


def _skipped(found: Found) -> tuple[Skipped, ...]:
    facts = found.investigation.facts
    whys = {
        **{build.position: build.why for build in facts.builds if not build.ok},
        **{failure.position: f"{failure.probe}: {failure.why}" for failure in facts.failures},
    }
    return tuple(Skipped(found.line.names[position], why) for position, why in sorted(whys.items()))
