"""From everything that is known to what is told."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from torchperf_ci.bisect.segment import Segment
from torchperf_ci.config import UP
from torchperf_ci.culprits.culprit import (
    Change,
    Culprit,
    Location,
    MachineTime,
    Measurement,
    Skipped,
    Status,
    Suspect,
)
from torchperf_ci.series import policy
from torchperf_ci.stats.effect import Effect, paired_effect

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from torchperf_ci.bisect.commits import Commit
    from torchperf_ci.bisect.investigation import Investigation
    from torchperf_ci.bisect.proof import Proof
    from torchperf_ci.bisect.stage import Found
    from torchperf_ci.bisect.standing import Standing


def conclude(found: Found, rules: Mapping[str, Any]) -> Location:
    """What one search came to. ``rules`` are the configuration's, which say of a metric which way is better."""
    known, names = found.investigation, found.line.names
    facts = known.facts
    status, why = _status(found)
    return Location(
        status=status,
        good=names[0],
        bad=names[-1],
        why=why,
        runs=len(facts.readings),
        builds=len(facts.builds),
        seconds=MachineTime(sum(r.seconds for r in facts.readings), sum(b.seconds for b in facts.builds)),
        confirmed={
            one.series: _effect(one.confirmation.log_ratios, one.series, rules)
            for one in known.standings
            if one.confirmation.log_ratios
        },
        culprits=tuple(_culprit(found, step, rules) for step in _steps(known)),
        credible=_credible(found) if status == "inconclusive" else (),
        skipped=_skipped(found),
        notes=(*found.setting.notes, *_notes(found)),
        readings=tuple(
            Measurement(r.probe, names[r.base], names[r.head], r.purpose, r.log_ratios, r.seconds)
            for r in facts.readings
        ),
    )


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
    return sorted({step for one in known.regressed for step in one.culprits})


def _culprit(found: Found, step: Segment, rules: Mapping[str, Any]) -> Culprit:
    known = found.investigation
    shown = [one for one in known.regressed if step in one.culprits]
    changes = tuple(_change(one, step, rules) for one in shown)
    names = tuple(found.line.names[step.before + 1 : step.after + 1])
    return Culprit(
        commit=names[0] if len(names) == 1 else None,
        set=names,
        posterior=_posterior(known, shown[0], step),
        effect=_effect(shown[0].tried[step].log_ratios, shown[0].series, rules),
        series=changes,
    )


def _change(one: Standing, step: Segment, rules: Mapping[str, Any]) -> Change:
    ratios = one.tried[step].log_ratios
    sign = _sign(one.series, rules)
    return Change(one.series, _effect(ratios, one.series, rules), tuple(sign * ratio for ratio in ratios))


def _effect(log_ratios: Sequence[float], series: str, rules: Mapping[str, Any]) -> Effect:
    return paired_effect([_sign(series, rules) * ratio for ratio in log_ratios])


def _sign(series: str, rules: Mapping[str, Any]) -> int:
    """−1 where a metric gets worse by falling: readings rise where things get worse."""
    words = series.split(" ")
    named = [word for word in words if policy.rule(word, rules).direction]
    return -1 if named and policy.rule(named[0], rules).direction == UP else 1


def _posterior(known: Investigation, one: Standing, step: Segment) -> float:
    """The probability of the step among the suspects between the culprits on either side."""
    others = [other for other in _steps(known) if other != step]
    before = max((other.after for other in others if other.after <= step.before), default=0)
    after = min((other.before for other in others if other.before >= step.after), default=known.question.bad)
    part = Segment(before, after)
    suspects = one.weigh(part).suspects
    return float(min(suspects[step.before - before : step.after - before].sum(), 1.0))


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


def _status(found: Found) -> tuple[Status, str]:
    known = found.investigation
    if _steps(known):
        return "found", ""
    if not known.probes:
        return "inconclusive", "nothing that was to be measured runs on the bad commit: choose another one"
    proofs = [one.confirmation for one in known.standings]
    if found.ended_by:
        return (
            "inconclusive",
            f"the limit of {found.ended_by} ended it: give more, and the same call goes on from here",
        )
    if known.regressed:
        return "inconclusive", " ".join(dict.fromkeys(_dead_ends(found)))
    if any(proof.word == "unknown" for proof in proofs):
        return "inconclusive", _not_told(proofs, known.question.min_effect)
    return "not-reproduced", _not_seen(proofs)


def _dead_ends(found: Found) -> Iterator[str]:
    """Why a search cannot go on."""
    for search in found.investigation.searches:
        step = search.step
        if step is None:
            yield "no further measurement is expected to tell the suspects apart: it takes a quieter machine."
            continue
        proof = search.members[0].tried.get(step)
        pairs = len(proof.log_ratios) if proof else 0
        yield (
            f"everything points to {found.line.words[step.after]}, but {pairs} fresh pairs of it and the one before do "
            "not prove it: it takes a quieter machine, or a larger change."
        )


def _not_told(proofs: Sequence[Proof], min_effect: float) -> str:
    open_ones = [proof.decision for proof in proofs if proof.word == "unknown" and proof.decision]
    noise = max(decision.noise for decision in open_ones)
    pairs = max(decision.effect.pairs for decision in open_ones)
    return (
        f"{pairs} pairs of bad and good, which spread by {noise:.1%}, do not tell a change of {min_effect:.1%}: it "
        "takes a quieter machine, or a larger --min-effect"
    )


def _not_seen(proofs: Sequence[Proof]) -> str:
    decisions = [proof.decision for proof in proofs if proof.decision]
    most = max(decisions, key=lambda decision: decision.effect.ratio)
    change = f"{most.effect.ratio - 1:+.1%} ({most.effect.low - 1:+.1%}…{most.effect.high - 1:+.1%})"
    return (
        f"bad is not slower than good on this machine: the largest change of {len(decisions)} series is {change}, and "
        f"one of {most.detectable:.1%} would have been expected to show"
    )


def _notes(found: Found) -> Iterator[str]:
    """What is left open beside culprits that were found, and what did not run on bad."""
    known = found.investigation
    if _steps(known) and (found.ended_by or known.searches):
        because = (
            f"the limit of {found.ended_by} ended the search" if found.ended_by else "it could not be located"
        )
        if known.searches:
            yield f"the culprits do not explain all of the change, and {because}"
    for failure in known.facts.failures:
        if failure.position == known.question.bad:
            yield f"{failure.probe} does not run on the bad commit: {failure.why.splitlines()[0]}"
    quiet = [one.series for one in known.standings if one.confirmation.word == "not slower"]
    if quiet and known.regressed:
        yield f"not slower on this machine: {', '.join(quiet)}"
