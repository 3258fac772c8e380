"""Turn the pairs of a case into verdicts: latency by a sequential test, what hardly varies, and pass or fail."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from statistics import median
from typing import TYPE_CHECKING

import numpy as np

from torchperf_ci.document import counted, range_text
from torchperf_ci.metrics import LATENCY, PAIRED, STATUS
from torchperf_ci.scratch import is_disk_full
from torchperf_ci.series import policy
from torchperf_ci.series.points import WORKLOAD_CHANGED, Series
from torchperf_ci.stats.comparison import MIN_PAIRS_ALIKE, judge_pairs
from torchperf_ci.stats.effect_estimates import geometric_mean, paired_effect
from torchperf_ci.stats.sequential_test import ALPHA, MIN_PAIRS, Decision, boundaries
from torchperf_ci.verdicts.verdict import Evidence, SuiteMean, Verdict, VerdictWord

if TYPE_CHECKING:
    from torchperf_ci.bench.case import Case
    from torchperf_ci.bench.pairs import SideFailure
    from torchperf_ci.bench.process import ProcessOutcome
    from torchperf_ci.compare.compared_case import ComparedCase, Comparison, Control
    from torchperf_ci.config import Config
    from torchperf_ci.stats import sequential_test
    from torchperf_ci.stats.effect import Effect


@dataclass(frozen=True)
class ComparisonPolicy:
    """The policy for each metric: the configuration's, with ``min_effect`` overridden if it is given."""

    config: Config
    min_effect: float | None = None

    def rule(self, metric: str, recorded: str = "") -> policy.MetricRule:
        """Return direction, kind and smallest change that matters. ``recorded`` is the direction stated in records."""
        rule = policy.rule_of_metric(metric, self.config.policy, recorded=recorded)
        return replace(rule, min_effect=self.min_effect or rule.min_effect)


VERDICT_OF_DECISION: Mapping[sequential_test.Word, VerdictWord] = {
    "increase": "regressed",
    "decrease": "improved",
    "none": "unchanged",
    "open": "noisy",
}
MAX_TIMES = 1_000_000
"""Largest likelihood ratio that is printed. A larger one is not meaningful, because no machine is that reliable."""


def decided(
    compared: ComparedCase, session: Sequence[ComparedCase], min_effect: float, *, last: bool = False
) -> Decision:
    """Judge a case that has a pair. All cases of the ``session`` share the probability of a false alarm."""
    others = [other.readings for other in session if other is not compared]
    return judge_pairs(compared.readings, others, min_effect, len(session), last=last)


def judge_latency(
    series: Callable[[str], Series],
    compared: ComparedCase,
    session: Sequence[ComparedCase],
    min_effect: float,
    ended: str,
) -> Verdict:
    """Return the verdict on latency after the last pair. ``ended`` says why there are no more pairs.

    With fewer than ``MIN_PAIRS`` pairs the noise is unknown, so values derived from it are left out.
    """
    if not compared.pairs:
        why = (
            f"after its first try failed: {_last_loss(compared)}"
            if compared.lost
            else "before its first pair"
        )
        return Verdict(series(LATENCY), "noisy", f"{ended} {why}")
    decision = decided(compared, session, min_effect, last=True)
    enough = len(compared.pairs) >= MIN_PAIRS
    return Verdict(
        series(LATENCY),
        VERDICT_OF_DECISION[decision.word],
        _why_latency(decision, compared, min_effect, len(session), ended),
        effect=decision.effect,
        old=median(pair.base_seconds for pair in compared.pairs) * 1e3,
        new=median(pair.head_seconds for pair in compared.pairs) * 1e3,
        noise=decision.noise if enough else None,
        detectable=decision.detectable if enough else None,
        candidate=_looks_slower(decision, compared, min_effect),
        evidence=Evidence(
            batch_size=compared.case.batch_size,
            others={
                "pairs": len(compared.pairs),
                "log_ratios": compared.log_ratios,
                "head_first": [reading.head_first for reading in compared.readings if not reading.control],
                "controls": [ratio for _, ratio in compared.controls],
                "log_likelihood_ratios": {"increase": decision.increase, "decrease": decision.decrease},
                "alpha": ALPHA / len(session),
            },
        ),
    )


def is_beyond(effect: Effect, luck: float) -> bool:
    """Whether the whole interval of an effect is a change that ``luck``, on the log scale, does not explain."""
    return not luck or effect.low > math.exp(luck) or effect.high < math.exp(-luck)


def _unless_luck(verdict: Verdict, luck: float) -> Verdict:
    """The verdict; one of a change is open if one build of each commit may differ as much by luck.

    Only what goes beyond that by as much as pairs can show is detectable.
    """
    if luck and verdict.detectable:
        verdict = replace(verdict, detectable=math.expm1(math.log1p(verdict.detectable) + luck))
    is_change = verdict.verdict in ("regressed", "improved")
    if not (is_change and verdict.effect) or is_beyond(verdict.effect, luck):
        return verdict
    why = (
        f"{verdict.why}; but each commit was compiled once, and up to {math.expm1(luck):.1%} may be luck: "
        "torchperf bisect makes several builds of each"
    )
    return replace(verdict, verdict="noisy", candidate=verdict.is_red, why=why)


def _looks_slower(decision: Decision, compared: ComparedCase, min_effect: float) -> bool:
    """Whether an open case is more likely slower; with few pairs, whether each of them shows a change that matters."""
    least = math.log1p(min_effect)
    if decision.word != "open" or len(compared.pairs) < MIN_PAIRS_ALIKE:
        return False
    if len(compared.pairs) < MIN_PAIRS:
        return min(compared.log_ratios) >= least
    return decision.increase > 0 and math.log(decision.effect.ratio) >= least / 2


def _why_latency(
    decision: Decision, compared: ComparedCase, min_effect: float, cases: int, ended: str
) -> str:
    pairs, change = decision.effect.pairs, f"a change of {min_effect:.1%} or more"
    confirm, refute = boundaries(cases)
    by_likelihood = pairs >= MIN_PAIRS
    if decision.word == "none":
        if by_likelihood and decision.none >= -refute:
            return f"over {pairs} pairs, no change is {_times(decision.none)} as likely as {change}"
        return f"{pairs} pairs rule out {change}"
    if decision.word != "open":
        slower = decision.word == "increase"
        moved, likelihood = ("slower", decision.increase) if slower else ("faster", decision.decrease)
        if by_likelihood and likelihood >= confirm:
            return f"{moved}: over {pairs} pairs, {change} is {_times(likelihood)} as likely as no change"
        return f"{moved}: all {pairs} pairs lie beyond the {len(compared.controls)} A/A pairs"
    if pairs < MIN_PAIRS_ALIKE:
        return f"{ended} after {counted(pairs, 'pair')}; at least {MIN_PAIRS_ALIKE} are needed"
    effect, detectable = decision.effect, math.log1p(decision.detectable)
    is_clear = effect.size >= detectable if by_likelihood else not effect.low <= 1 <= effect.high
    if is_clear:
        return f"{ended} after {pairs} pairs; they differ, but are too few to prove a change"
    problem = f"they vary by {decision.noise:.1%}, too much" if by_likelihood else "they are too few"
    return f"{ended} after {pairs} pairs; {problem} to detect {change}"


def _times(log_ratio: float) -> str:
    """Return a likelihood ratio as text, with one or two digits."""
    if log_ratio > math.log(MAX_TIMES):
        return f"more than {MAX_TIMES:,} times"
    times = math.exp(log_ratio)
    return f"{times:,.0f} times" if times >= 10 else f"{times:.2g} times"


MIN_UNEQUAL = 5
MIN_EQUAL = 3
"""Fewest pairs with equal results: it is then practically certain that the next one is equal, too."""
_MORE_PAIRS = f"; it takes {MIN_UNEQUAL} pairs, or {MIN_EQUAL} that are equal, to judge that"


def has_enough_repeats(compared: ComparedCase) -> bool:
    """Whether there are enough pairs to judge memory, graph breaks and the like, which should be equal in all pairs."""
    return _are_enough([(*pair.base.items(), *pair.head.items()) for pair in compared.pairs])


def _are_enough(results: Sequence[object]) -> bool:
    """Whether there is one for each of enough pairs."""
    return len(results) >= (MIN_EQUAL if len({*results}) == 1 else MIN_UNEQUAL)


def judge_steady(
    series: Callable[[str], Series], compared: ComparedCase, policy: ComparisonPolicy
) -> Iterator[Verdict]:
    """Yield the verdicts on what hardly varies, such as memory and graph breaks: every pair must show a change.

    None for a metric that the case does not have.
    """
    for metric in PAIRED:
        values = [
            (pair.base[metric], pair.head[metric])
            for pair in compared.pairs
            if metric in pair.base and metric in pair.head
        ]
        rule = policy.rule(metric)
        if (rule.kind == "count" and values) or any(map(any, values)):  # none: no memory is counted
            verdict = _judge_values(series(metric), values, rule)
            evidence = Evidence(batch_size=compared.case.batch_size, others={"pairs": len(values)})
            yield replace(verdict, evidence=evidence)


def _judge_values(series: Series, values: Sequence[tuple[float, float]], rule: policy.MetricRule) -> Verdict:
    """Return the verdict on base and head in each pair: all of them must show a change, also for it to look worse.

    A change of a size is one by ``min_effect``, or from or to none, and any difference is one of a count.
    """
    (base, head), enough = zip(*values, strict=True), _are_enough(values)
    is_count = rule.kind == "count"
    effect = None if is_count or 0 in base + head else paired_effect(np.log(np.divide(head, base)))
    most = 1.0 if is_count else 1 + rule.min_effect
    above = sum(new > old * most for old, new in values)
    below = sum(old > new * most for old, new in values)
    if effect:
        is_same = 1 / most <= effect.ratio <= most
        why = f"higher by more than {rule.min_effect:.1%} in {above} of {len(values)} pairs, lower in {below}"
    else:
        is_same = not (above or below)
        why = f"{range_text(head)} on head, {range_text(base)} on base"
    word = rule.word(above=above == len(values), below=below == len(values))
    return Verdict(
        series,
        (word or ("unchanged" if is_same else "noisy")) if enough else "noisy",
        why if enough else f"{why}{_MORE_PAIRS}",
        effect=effect,
        old=median(base),
        new=median(head),
        candidate=word == "regressed" and not enough and len(values) >= MIN_EQUAL,
    )


def judge_outcome(series: Callable[[str], Series], compared: ComparedCase) -> Verdict:
    """Return "broken" if only head fails, "fixed" if only base does; otherwise nothing can be said.

    A full disk is no failure of a build, and neither is what one lacks, such as a kernel or a package. What has run in
    pairs, or alone, before it failed may fail by chance. If only head fails so, or only beside base, it is a candidate.
    """
    base, head = compared.alone["base"], compared.alone["head"]
    word, why = _outcome_word(base, head, compared)
    heads = {("head", "crashed"), ("head", "failed")}  # not memory, which the two together may lack
    is_heads = {(loss.side, loss.status) for loss in compared.lost} <= heads
    only_head = base.passed and (is_heads if head.passed else not is_disk_full(head.reason))
    doubt = only_head and word in ("noisy", "missing")
    return Verdict(series(STATUS), word, why, old=float(base.passed), new=float(head.passed), candidate=doubt)


def _outcome_word(
    base: ProcessOutcome, head: ProcessOutcome, compared: ComparedCase
) -> tuple[VerdictWord, str]:
    if base.passed and head.passed:
        configs = [outcome.answers.build and outcome.answers.build.config for outcome in (base, head)]
        if configs[0] != configs[1]:
            return "not-comparable", f"{WORKLOAD_CHANGED}: workload_config: {configs[0]} → {configs[1]}"
        why = "each side runs alone, but not alongside the other"
        if compared.pairs:
            why = f"each side runs alone, but {_lost_tries(compared)}"
        return "missing", f"{why}: {_last_loss(compared)}"
    failing = [one for one in (head, base) if not one.passed]
    if full := [one for one in failing if is_disk_full(one.reason)]:
        return (
            "missing",
            f"the disk was full, which neither build is to blame for: {_status_and_reason(full[0])}",
        )
    pairs, why = len(compared.pairs), _status_and_reason(failing[0])
    # A compiled case ran alone before its first pair, and others after the first one that failed.
    alone = "alone" if len(compared.lost) + compared.case.compiled > 1 else ""
    ran = f"in {counted(pairs, 'pair')}" if pairs else alone
    before = f"ran {ran}; then it " if ran else ""
    if len(failing) > 1:
        return "missing", f"{before}runs on neither side: {why}"
    sides = "base, but not on head" if base.passed else "head, but not on base"
    word: VerdictWord = "noisy" if ran else "broken" if base.passed else "fixed"
    return "missing" if failing[0].status == "unsupported" else word, f"{before}passes on {sides}: {why}"


def _status_and_reason(outcome: ProcessOutcome | SideFailure) -> str:
    return f"{outcome.status}: {outcome.reason}" if outcome.reason else outcome.status


def _lost_tries(compared: ComparedCase) -> str:
    lost = len(compared.lost)
    return f"{lost} of {lost + len(compared.pairs)} tries failed"


def _last_loss(compared: ComparedCase) -> str:
    last = compared.lost[-1]
    return f"{last.side}: {_status_and_reason(last)}"


SeriesNaming = Callable[["Case", str], "Series"]
"""Returns the series of a case's metric."""
VOID = "void: the A/A control shows a change where there is none"


def judge_cases(
    comparison: Comparison, policy: ComparisonPolicy, naming: SeriesNaming, controls: Mapping[str, Control]
) -> Iterator[Verdict]:
    """Yield the verdicts on every case that was measured or tried. ``controls`` are by backend."""
    ended = "interrupted" if comparison.stopped else "the budget ran out"
    for compared in comparison.cases:
        series = partial(naming, compared.case)
        if compared.failed:
            yield judge_outcome(series, compared)
            continue
        latency = judge_latency(series, compared, comparison.cases, policy.rule(LATENCY).min_effect, ended)
        latency = _controlled(_unless_luck(latency, comparison.luck), controls[compared.case.backend])
        yield _with_loss(latency, compared)
        if compared.pairs:
            yield from judge_steady(series, compared, policy)


def _controlled(latency: Verdict, control: Control) -> Verdict:
    others = {**latency.evidence.others, "control": vars(control)}
    latency = replace(latency, evidence=replace(latency.evidence, others=others))
    spoilt = control.spoils(latency.effect)
    return replace(latency, verdict="noisy", candidate=False, why=VOID) if spoilt else latency


def _with_loss(latency: Verdict, compared: ComparedCase) -> Verdict:
    """Return the verdict, which says whether a pair failed, although it says nothing about the time of the others."""
    if not (compared.lost and compared.pairs):
        return latency
    return replace(latency, why=f"{latency.why}; {_lost_tries(compared)}: {_last_loss(compared)}")


def suites(comparison: Comparison) -> Iterator[SuiteMean]:
    """Yield the geometric mean over the cases that have at least two pairs; a single case has its own estimate.

    Only the first three pairs count, which every case takes before it may end. Whether there are more depends on their
    results, for example a case that is high by chance may get no more, so the mean of all pairs would be biased.
    """
    rows = [
        compared.log_ratios[:MIN_PAIRS_ALIKE]
        for compared in comparison.cases
        if len(compared.pairs) > 1 and not compared.failed
    ]
    if len(rows) > 1:
        yield SuiteMean(LATENCY, geometric_mean(rows), len(rows))
