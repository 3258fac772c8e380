"""The sign and the headline of judgements in every report: verdict counts, and whether enough was judged.

Enough means at least half of all series and at least half of the timings: memory that stays the same says nothing
about speed that could not be judged. Next to them it says on which machines most cases look slower.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from math import expm1
from statistics import median
from typing import TYPE_CHECKING, Literal

from torchperf_ci.document import change_text, counted
from torchperf_ci.metrics import ANCHORED, STATUS, is_timing, kind_of
from torchperf_ci.verdicts.verdict import CommitRange, Judgement, Verdict, VerdictWord, all_verdicts

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Mapping, Sequence

    from torchperf_ci.series.points import Series, SeriesGroup


VerdictGroup = Literal[VerdictWord, "candidate", "unjudged"]
LOUD: tuple[VerdictGroup, ...] = ("regressed", "broken", "candidate", "improved", "fixed")
QUIET: tuple[VerdictGroup, ...] = ("unjudged", "missing", "new", "not-affected")
"""The groups of verdicts that are listed, the most important first; unchanged ones, between them, are counted."""
_AFTER_COUNT: Mapping[VerdictGroup, str] = {
    "candidate": "look worse but are unproven",
    "unjudged": "could not be judged",
    "not-affected": "not affected and not measured",
}
"""How groups are called after their count, if not by their name."""


def group_of(verdict: Verdict) -> VerdictGroup:
    """The group that a verdict belongs to."""
    if verdict.candidate and not verdict.is_red:
        return "candidate"
    return "unjudged" if verdict.verdict in ("noisy", "not-comparable") else verdict.verdict


def grouped(verdicts: Iterable[Verdict]) -> dict[VerdictGroup, list[Verdict]]:
    """The verdicts by group, the most important one first; the largest changes come first in each group."""
    groups: dict[VerdictGroup, list[Verdict]] = {group: [] for group in (*LOUD, "unchanged", *QUIET)}
    for verdict in sorted(verdicts, key=lambda it: (it.size, abs(it.difference)), reverse=True):
        groups[group_of(verdict)].append(verdict)
    return groups


def count_verdicts(verdicts: Iterable[Verdict]) -> str:
    """The counts of all groups, ``2 regressed, 1 broken, 61 unchanged, 4 could not be judged``; empty if all are 0."""
    counts = {group: len(members) for group, members in grouped(verdicts).items() if members}
    return ", ".join(f"{count:,} {_after_count(group, count)}" for group, count in counts.items())


def _after_count(group: VerdictGroup, count: int) -> str:
    is_one = group == "candidate" and count == 1
    return "looks worse but is unproven" if is_one else _AFTER_COUNT.get(group, group)


JUDGED: tuple[VerdictWord, ...] = ("regressed", "broken", "improved", "fixed", "unchanged")
_OPEN = ("missing", "failing", "candidate", "noisy", "not-comparable", "new")
"""What the tables call series that were not judged."""
_QUIETER = "a quieter machine (torchperf doctor shows what disturbs it)"
_MORE_PAIRS = f"{_QUIETER}, or more pairs: a longer --budget, or fewer cases"
_MORE_VALUES = f"more values on both sides, or {_QUIETER}"
_TAKES: Mapping[str, str] = {
    "candidate": "another run, which shows whether what looks worse is",
    "noisy": f"more runs or, if a dozen are not enough, {_QUIETER}",
    "not-comparable": "this run on the machine of the earlier ones, or an earlier build on this one",
    "missing": "a run that measures what is missing",
    "failing": "a run in which the failing cases pass",
    "new": "more runs of the new series",
}
_TAKES_IN_PAIRS = {
    "candidate": _MORE_PAIRS,
    "noisy": _MORE_PAIRS,
    "not-comparable": "both sides measured under the same conditions",
    "new": "a base that has the new workloads",
}


@dataclass(frozen=True)
class Coverage:
    """How many series were ``judged`` and ``unjudged``. New series in a first run count as neither.

    Series that a change cannot affect count as neither, too; if it affects none, that is enough.
    """

    judged: int
    unjudged: int
    is_first: bool
    is_enough: bool


def coverage(judgement: Judgement) -> Coverage:
    """The coverage of one verdicts file."""
    verdicts = to_judge(judgement)
    judged, is_first = _judged(verdicts), is_first_run(verdicts)
    left = [verdict for verdict in verdicts if not (is_first and verdict.verdict == "new")]
    times = _timings(verdicts)
    enough = judged > 0 and 2 * judged >= len(verdicts) and 2 * _judged(times) >= len(times)
    return Coverage(judged, len(left) - judged, is_first, enough or bool(judgement.verdicts and not verdicts))


def _timings(verdicts: Sequence[Verdict]) -> list[Verdict]:
    """The timings and, beside these, the cases that have none because they ran on neither side, or fail as before.

    Such a case has a single verdict, while each of the others has one for each of its metrics.
    """
    times = [verdict for verdict in verdicts if is_timing(verdict.series.metric)]
    timed = {verdict.series.case for verdict in times}
    untimed = [
        verdict
        for verdict in verdicts
        if verdict.series.metric == STATUS and verdict.new is not None and verdict.verdict != "new"
        if verdict.series.case not in timed and _open_word(verdict) not in JUDGED
    ]
    return [*times, *untimed] if times else []


def to_judge(judgement: Judgement) -> list[Verdict]:
    """All verdicts except on series that the change cannot affect."""
    return [verdict for verdict in judgement.verdicts if verdict.verdict != "not-affected"]


def is_first_run(verdicts: Sequence[Verdict]) -> bool:
    """Whether no series has any history: all are new, apart from those that could not be measured."""
    later = [verdict for verdict in verdicts if verdict.verdict != "new"]
    return len(later) < len(verdicts) and all(it.verdict == "missing" and it.old is None for it in later)


def is_enough(judgements: Sequence[Judgement]) -> bool:
    """Whether enough was judged in each file that is not a first run; False if all of them are.

    A comparison is none: if everything is new there, base could run nothing.
    """
    covers = [(coverage(judgement), judgement.command) for judgement in judgements]
    later = [covered for covered, command in covers if command == "compare" or not covered.is_first]
    return bool(later) and all(covered.is_enough for covered in later)


def shortfall(judgement: Judgement) -> str:
    """One sentence on how little was judged, and why; empty if it was enough or this is a first run."""
    covered, verdicts = coverage(judgement), to_judge(judgement)
    if covered.is_enough or covered.is_first or not verdicts:
        return ""
    times = _timings(verdicts)
    of_all = f"{covered.judged:,} of {len(verdicts):,} series were judged"
    of_times = f", and {_judged(times):,} of {len(times):,} timings" if 0 < len(times) < len(verdicts) else ""
    return f"Only {of_all}{of_times}: {'; '.join(_reasons(verdicts))}."


def what_it_takes(judgement: Judgement) -> str:
    """What it would take to judge the rest."""
    known = {**_TAKES, **(_TAKES_IN_PAIRS if judgement.command == "compare" else {})}
    if any("old_values" in verdict.evidence.others for verdict in judgement.verdicts):  # two directories
        known = {**known, "candidate": _MORE_VALUES, "noisy": _MORE_VALUES}
    counted = Counter(word for verdict in judgement.verdicts if (word := _open_word(verdict)) in _OPEN)
    return "; ".join(dict.fromkeys(known[word] for word, _ in counted.most_common()))


def _open_word(verdict: Verdict) -> str:
    """The verdict in a word; a case that fails as before is "failing", which says nothing about its performance."""
    if verdict.verdict == "unchanged" and verdict.new == 0 and kind_of(verdict.series.metric) == "outcome":
        return "failing"
    return "candidate" if verdict.candidate and verdict.verdict == "noisy" else verdict.verdict


def _reasons(verdicts: Sequence[Verdict]) -> Iterator[str]:
    """The most common reason for each verdict that is not a judgement."""
    counts = {
        word: Counter(verdict.why for verdict in verdicts if _open_word(verdict) == word) for word in _OPEN
    }
    for word, reasons in sorted(counts.items(), key=lambda item: item[1].total(), reverse=True):
        if reasons:
            why, _ = reasons.most_common(1)[0]
            yield f"{reasons.total():,} {word} ({'' if len(reasons) == 1 else 'for example: '}{why})"


def _judged(verdicts: Sequence[Verdict]) -> int:
    return sum(_open_word(verdict) in JUDGED for verdict in verdicts)


GREEN, LITTLE = "✅", "⚪"
FIRST_JUDGED = "sixth"
"""The first run that is judged: the gate estimates noise from five earlier runs."""


def sign(judgements: Sequence[Judgement]) -> str:
    """❌ if something is red, ⚠️ if something looks worse, ✅ if enough was judged, else ⚪."""
    groups = grouped(all_verdicts(judgements))
    if groups["regressed"] or groups["broken"]:
        return "❌"
    if groups["candidate"]:
        return "⚠️"
    return GREEN if is_enough(judgements) else LITTLE


def headline(judgements: Sequence[Judgement]) -> str:
    """One sentence with all counts. If nothing stands out and little was judged, it starts by saying so."""
    verdicts = all_verdicts(judgements)
    if not verdicts:
        return "nothing was judged"
    if all(coverage(judgement).is_first for judgement in judgements if judgement.verdicts):
        return _first_run(judgements, verdicts)
    return f"{'too little could be judged: ' if sign(judgements) == LITTLE else ''}{count_verdicts(verdicts)}"


def young_series(judgement: Judgement) -> list[str]:
    """Lines about series without history, or with too little; none about new ones if the headline says it."""
    new = sum(is_only_new(verdict, judgement) for verdict in judgement.verdicts)
    young = sum(verdict.evidence.too_few_runs for verdict in judgement.verdicts)
    judged = judgement.command == "check"
    lines = []
    if new and not coverage(judgement).is_first:
        lines.append(_are_new(new, judged=judged) + ("" if judged else ": base has nothing to compare with"))
    if young:
        have, they = counted(young, "series has", "series have"), "they are" if young > 1 else "it is"
        lines.append(f"{have} too few comparable runs so far; {they} judged from the {FIRST_JUDGED} on")
    return lines


def is_only_new(verdict: Verdict, judgement: Judgement) -> bool:
    """Whether there is nothing to say about a series but that it has no history yet.

    There is more to say of a series that fails at once, or that ``compare`` could not measure because base has no
    such workload.
    """
    is_measured = judgement.command == "check" or (judgement.command == "compare" and verdict.new is not None)
    return is_measured and verdict.verdict == "new" and not verdict.evidence.failing


def _first_run(judgements: Sequence[Judgement], verdicts: Sequence[Verdict]) -> str:
    new = sum(verdict.verdict == "new" for verdict in verdicts)
    are_new = _are_new(new, judged=all(judgement.command == "check" for judgement in judgements))
    rest = count_verdicts(verdict for verdict in verdicts if verdict.verdict != "new")
    return f"{are_new}; {rest}" if rest else are_new


def _are_new(count: int, *, judged: bool) -> str:
    are_new, they = (f"{count:,} series are new", "they are") if count > 1 else ("1 series is new", "it is")
    return f"{are_new}; {they} judged from the {FIRST_JUDGED} run on" if judged else are_new


_WHOLE_MACHINE = 4
"""Fewest cases of a machine of which more than half must look slower for the machine to be suspected, too."""


def suspect_machines(verdicts: Iterable[Verdict]) -> Mapping[SeriesGroup, str]:
    """A sentence on each kind of machine on which most cases look slower, by history alone, at once.

    Pairs and anchored series do not count, because both sides are measured on the same machine.
    """
    known = list(verdicts)
    anchored = {verdict.series.case for verdict in known if verdict.series.metric == ANCHORED}
    slower: dict[SeriesGroup, dict[Series, float]] = defaultdict(dict)
    for verdict in known:
        case, effect, cases = verdict.series.case, verdict.effect, slower[verdict.series.group]
        if is_timing(verdict.series.metric) and case not in anchored and effect and not effect.pairs:
            by = effect.size if verdict.is_red or verdict.candidate else 0.0
            cases[case] = max(by, cases.get(case, 0.0))
    sentences = {}
    for group, cases in slower.items():
        sizes = [size for size in cases.values() if size]
        if len(sizes) >= _WHOLE_MACHINE and 2 * len(sizes) > len(cases):
            sentences[group] = (
                f"{len(sizes):,} of {len(cases):,} cases on {group.arch or group.device} look slower at once, "
                f"by {change_text(expm1(median(sizes)))} in the median: perhaps the machine changed, which only "
                "pairs can tell"
            )
    return sentences


def with_ranges_of_machines(verdicts: Sequence[Verdict], suspect: Container[SeriesGroup]) -> list[Verdict]:
    """The verdicts; timings of a ``suspect`` machine have the commits of most of them if theirs are next to these.

    By its noise, a series may seem to change a run early or late.
    """
    timings = [it for it in verdicts if is_timing(it.series.metric) and it.series.group in suspect]
    counts: dict[SeriesGroup, Counter[CommitRange]] = defaultdict(Counter)
    for verdict in timings:
        counts[verdict.series.group][verdict.evidence.commits] += 1
    moved = {}
    for verdict in timings:
        own, known = verdict.evidence.commits, counts[verdict.series.group]
        most = max(known, key=known.__getitem__)
        if own.last_old == most.first_new or own.first_new == most.last_old:
            moved[verdict.series] = replace(verdict, evidence=replace(verdict.evidence, commits=most))
    return [moved.get(verdict.series, verdict) for verdict in verdicts]
