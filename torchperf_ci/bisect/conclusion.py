"""Turn the result of a search into the contents of ``culprits.json``: status, reason, culprits and notes."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field, replace
from statistics import median
from typing import TYPE_CHECKING

from torchperf_ci.bisect.culprit_profile import CulpritProfiles
from torchperf_ci.bisect.measurement_setup import MeasurementSetup, moved_under_good
from torchperf_ci.bisect.open_questions import is_found, open_questions, series_showing
from torchperf_ci.bisect.probes import CommandProbe
from torchperf_ci.bisect.reasoning.evidence import BisectQuestion, SuspectRange
from torchperf_ci.config import Rule
from torchperf_ci.culprits.culprit import (
    Bisection,
    Culprit,
    KnownBuildVariance,
    MachineTime,
    PairMeasurement,
    SeriesEffect,
    SkippedCommit,
    Suspect,
)
from torchperf_ci.document import change_text
from torchperf_ci.metrics import METRICS, UP
from torchperf_ci.series import policy
from torchperf_ci.stats.effect import Effect

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from torchperf_ci.bisect.commits import BuildSequence, Commit
    from torchperf_ci.bisect.reasoning.investigation import Investigation
    from torchperf_ci.bisect.reasoning.proof import Proof
    from torchperf_ci.bisect.reasoning.series_evidence import SeriesEvidence
    from torchperf_ci.culprits.culprit import BisectionStatus


@dataclass(frozen=True)
class SearchResult:
    """A sequence of builds and everything that a search learned about it.

    ``ended_by`` is the option whose limit ended the search, or empty. ``profiles`` show what changed inside the
    culprits. ``notes`` are remarks for the reader that the search collected on the way.
    """

    sequence: BuildSequence
    investigation: Investigation
    ended_by: str
    setup: MeasurementSetup
    profiles: CulpritProfiles = field(default_factory=CulpritProfiles)
    notes: tuple[str, ...] = ()


def bisection_status(result: SearchResult) -> tuple[BisectionStatus, str]:
    """The status of the bisection, and the reason for it; empty if culprits were found and nothing is left to learn."""
    investigation, ended_by = result.investigation, result.ended_by
    limit = (
        f"the limit of {ended_by} ended it: raise it, and the same command continues from here"
        if ended_by
        else ""
    )
    if is_found(investigation):
        return "found", limit
    if not investigation.probes:
        return "inconclusive", (
            "none of the things to measure runs on both the good and the bad commit: choose ends on which one does, or "
            "measure something else"
        )
    proofs = [series.confirmation for series in investigation.series]
    if limit:
        return "inconclusive", limit
    if gone := investigation.explained_by_luck:
        return "build", _explained_by_luck(gone)
    if investigation.regressed:
        return "inconclusive", "; ".join(dict.fromkeys(_dead_ends(result)))
    if any(proof.word == "unknown" for proof in proofs):
        return "inconclusive", _too_noisy(proofs, investigation.question.min_effect) + _same_code(result)
    return _not_reproduced(result, proofs)


def _explained_by_luck(series: SeriesEvidence) -> str:
    old, new = (math.expm1(median(log_ratios)) for log_ratios in series.first_and_anew)
    return (
        f"the first builds of bad and good differ by {change_text(old)}, but rebuilds of them by {change_text(new)}: "
        "this is build luck, which no commit caused"
    )


def _dead_ends(result: SearchResult) -> Iterator[str]:
    """Yield, for each search that found no culprit, the reason why it cannot continue."""
    for search in result.investigation.searches:
        refuted = [*search.segment.parts(search.first.refuted)]
        step = refuted[0] if len(refuted) == 1 else search.step
        if search.is_spent and search.step is None:
            yield (
                "the search has taken many times the pairs that would have revealed one commit: several changes, each "
                "too small to see, may add up, or the machine is not steady"
            )
        elif step is None:
            yield "no further measurement is expected to tell the suspects apart: that takes a quieter machine"
        if step is None:
            continue
        proof, culprit = search.first.tried.get(step), result.sequence.labels[step.after]
        if search.returns:
            again = " or ".join(result.sequence.labels[place] for place in search.returns)
            yield (
                f"everything points to {culprit}, which was reverted; but the next commit that builds is slow "
                f"again, so the cause may also be what brought it back ({again}), and no build can tell which"
            )
            continue
        if proof is None:
            yield f"everything points to {culprit}, but it or its predecessor could not be measured again to prove it"
            continue
        takes = _DIGITS if proof.coarse else _OTHER_BUILDS if proof.of_these_builds else "a quieter machine"
        yield (
            f"the likeliest is {culprit}, but {len(proof.log_ratios)} fresh pairs of it and its predecessor do not "
            f"prove it: that takes {takes} or a larger change"
        )


_DIGITS = "a command that prints more digits"
_OTHER_BUILDS = "several builds of both, because one build of each may differ by luck,"


def _too_noisy(proofs: Sequence[Proof], min_effect: float) -> str:
    if coarse := max(proof.coarse for proof in proofs):
        return (
            f"the command's readings are equal, and one unit of their last digit is {coarse:.1%}, too coarse to tell "
            f"whether bad is slower by {min_effect:.1%}: that takes {_DIGITS} or a larger --min-effect"
        )
    open_ones = [proof.decision for proof in proofs if proof.word == "unknown" and proof.decision]
    noise = max(decision.noise for decision in open_ones)
    pairs = max(decision.effect.pairs for decision in open_ones)
    return (
        f"{pairs} pairs of bad and good vary by {noise:.1%}, too much to detect a change of {min_effect:.1%}: that "
        "takes a quieter machine or a larger --min-effect"
    )


def _not_reproduced(result: SearchResult, proofs: Sequence[Proof]) -> tuple[BisectionStatus, str]:
    """Why bad is not slower than good: good is now as slow as bad was, or bad is now as fast as good was.

    The first needs the levels from the verdicts; without them the second is reported.
    """
    readings, levels = result.investigation.facts.readings, result.setup.levels
    now = moved_under_good(readings, levels)
    if not now:
        guessed = {probe.guessed for probe in result.setup.probes if isinstance(probe, CommandProbe)}
        is_guess = any(not guessed.isdisjoint(reading.log_ratios) for reading in readings)
        return "not-reproduced", _not_slower(proofs, _same_code(result), is_guess=is_guess)
    changes = (
        f"{name} is {value:.4g}, was {levels[name][0]:.4g} and then {levels[name][1]:.4g}"
        for name, value in now.items()
    )
    why = "the good build itself is as slow here now as bad was: the machine or something else changed, not the code"
    return "environment", f"{why} ({'; '.join(changes)})"


_WRONG_DIRECTION = (
    ". Lower numbers count as better; if not, name the --metric, or its direction in torchperf.yml"
)
_SAME_CODE = (
    ". Does the command import the commit's code? A copy that is installed, or beside the script, is the same for "
    "every commit; and commits have submodules only if your checkout has them"
)


def _same_code(result: SearchResult) -> str:
    """What a command may have done wrong if it shows no change; nobody checks what it imports."""
    return _SAME_CODE if any(isinstance(probe, CommandProbe) for probe in result.setup.probes) else ""


def _not_slower(proofs: Sequence[Proof], otherwise: str, *, is_guess: bool) -> str:
    decisions = [proof.decision for proof in proofs if proof.decision and proof.word == "not slower"]
    most = max(decisions, key=lambda decision: decision.effect.ratio)
    is_better = most.word == "decrease"
    sign, what = (-1, "better") if is_better else (1, "worse")
    ends = (most.effect.low, most.effect.ratio, most.effect.high)
    low, middle, high = (change_text(change) for change in sorted(sign * (end - 1) for end in ends))
    hint = _WRONG_DIRECTION if is_guess and is_better else otherwise
    return (
        f"bad is not slower than good on this machine: the worst of {len(decisions)} series got {what} by {middle} "
        f"({low}…{high}), and a change of {most.detectable:.1%} should have been visible{hint}"
    )


def conclude(result: SearchResult, rules: Mapping[str, Rule]) -> Bisection:
    """Summarize one search. ``rules`` come from the configuration and give the direction of each metric."""
    investigation, names = result.investigation, result.sequence.ids
    facts = investigation.facts
    rules = {**{metric: Rule(better) for metric, better in facts.directions.items()}, **rules}
    word, why = bisection_status(result)
    return Bisection(
        status=word,
        good=names[0],
        bad=names[-1],
        why=why,
        runs=len(facts.readings),
        builds=len(facts.builds),
        seconds=MachineTime(sum(r.seconds for r in facts.readings), sum(b.seconds for b in facts.builds)),
        confirmed={
            series.name: _effect(series.confirmation, series.name, rules)
            for series in investigation.series
            if series.confirmation.log_ratios
        },
        culprits=tuple(_culprit(result, step, rules) for step in investigation.culprits),
        credible=_credible(result) if word == "inconclusive" else (),
        skipped=_skipped(result),
        notes=(
            *result.notes,
            *result.setup.notes,
            *open_questions(investigation, result.ended_by, result.sequence.labels),
            *result.profiles.notes,
        ),
        luck=_build_variance(investigation),
        readings=tuple(
            PairMeasurement(
                r.probe, names[r.base], names[r.head], r.purpose, r.log_ratios, r.seconds, r.draws
            )
            for r in facts.readings
        ),
    )


def clearest_probes(investigation: Investigation) -> Mapping[SuspectRange, str]:
    """The culprits, each with the name of the probe that shows it most clearly."""
    return {step: series_showing(investigation, step)[0][0].probe for step in investigation.culprits}


def with_commit_details(culprit: Culprit, commits: Mapping[str, Commit], repo_url: str) -> Culprit:
    """Add the author, date, subject, pull request and URL of the commit to the culprit."""
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


def _culprit(result: SearchResult, step: SuspectRange, rules: Mapping[str, Rule]) -> Culprit:
    investigation = result.investigation
    shown = series_showing(investigation, step)
    changes = tuple(_change(series, own, rules) for series, own in shown)
    clearest, own = shown[0]
    names = tuple(result.sequence.ids[step.before + 1 : step.after + 1])
    return Culprit(
        commit=names[0] if len(names) == 1 else None,
        set=names,
        posterior=clearest.chance_of_rise(clearest.whole, step),
        effect=_effect(clearest.tried[own], clearest.name, rules),
        series=changes,
        inside=result.profiles.inside.get(step),
        builds=_builds(clearest, own),
    )


def _builds(series: SeriesEvidence, step: SuspectRange) -> tuple[int, int] | None:
    """How many builds of the two ends of a step its proof rests on; None if build luck does not apply.

    Other series may have been proven on builds of their own.
    """
    if not series.question.luck or series.facts.differ_in_texts(step.before, step.after):
        return None
    before, own = (
        len(set(of_side)) for of_side in zip(*series.draws_of(step, fresh=True).blocks, strict=True)
    )
    return before, own


def _build_variance(investigation: Investigation) -> KnownBuildVariance | None:
    """How much builds of the same code differ, and how that is known; None if build luck does not apply."""
    if not investigation.question.luck:
        return None
    proofs = [
        proof for series in investigation.series for proof in (series.confirmation, *series.tried.values())
    ]
    learnt = [(len(proof.log_ratios), proof.by_build.tau) for proof in proofs if proof.by_build]
    if learnt and any(b.ok and b.draw and not b.repeated for b in investigation.facts.builds):
        return KnownBuildVariance(max(learnt)[1], "rebuilds")  # from the proof with the most pairs
    return KnownBuildVariance(
        investigation.question.luck,
        "expected" if investigation.question.luck == BisectQuestion.luck else "history",
    )


def _change(series: SeriesEvidence, step: SuspectRange, rules: Mapping[str, Rule]) -> SeriesEffect:
    proof, sign = series.tried[step], _direction_sign(series.name, rules)
    effect = _effect(proof, series.name, rules)
    return SeriesEffect(series.name, effect, tuple(sign * ratio for ratio in proof.log_ratios))


def _effect(proof: Proof, series: str, rules: Mapping[str, Rule]) -> Effect:
    """The effect on the metric; if builds differ by luck, the effect of the code alone."""
    effect = proof.decision.effect if proof.decision else Effect(1.0)
    return effect if _direction_sign(series, rules) > 0 else effect.inverse()


def _direction_sign(series: str, rules: Mapping[str, Rule]) -> int:
    """Return −1 if the metric gets worse when it falls, else 1; readings always rise when things get worse."""
    return -1 if policy.rule_of_metric(_metric(series, rules), rules).direction == UP else 1


def _metric(series: str, rules: Mapping[str, Rule]) -> str:
    """The metric of a series, whose name ends with it and then, in parentheses, with how it was measured.

    Metrics and models may both have several words. Prefer the longest ending that the table or the configuration
    knows, then the shortest ending that has a direction.
    """
    words = re.sub(r" \([^()]*\)$", "", series).split(" ")
    ends = [" ".join(words[first:]) for first in range(len(words))]
    named = [end for end in ends if end in rules or end in METRICS]
    return (
        named or [end for end in reversed(ends) if policy.rule_of_metric(end, rules).direction] or [series]
    )[0]


def _credible(result: SearchResult) -> tuple[Suspect, ...]:
    """The remaining suspects, the likeliest first."""
    left: dict[int, float] = {}
    for search in result.investigation.searches:
        for position, probability in search.suspects().items():
            left[position] = max(left.get(position, 0.0), probability)
    ids, sources = result.sequence.ids, result.sequence.sources
    return tuple(
        Suspect(ids[position], probability, getattr(sources[position], "subject", ""))
        for position, probability in sorted(left.items(), key=lambda item: -item[1])
    )


def _skipped(result: SearchResult) -> tuple[SkippedCommit, ...]:
    facts = result.investigation.facts
    whys = {
        **{
            position: f"{series.probe}: it yields no {series.name}"
            for series in result.investigation.regressed
            for position in series.failing
        },
        **{build.position: build.why for build in facts.builds if build.position not in facts.built},
        **{failure.position: f"{failure.probe}: {failure.why}" for failure in facts.failures},
    }
    return tuple(SkippedCommit(result.sequence.ids[position], why) for position, why in sorted(whys.items()))
