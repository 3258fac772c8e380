"""The sign and the headline of judgements in every report: verdict counts, and whether enough was judged.

Enough means at least half of all series and at least half of the latencies: memory that stays the same says nothing
about speed that could not be judged.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from torchperf_ci.metrics import is_latency

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from torchperf_ci.verdicts.verdict import Judgement, Verdict, VerdictWord


VerdictGroup = Literal[
    "regressed",
    "broken",
    "candidate",
    "improved",
    "fixed",
    "unchanged",
    "unjudged",
    "missing",
    "new",
    "not-affected",
]
COUNTED: Mapping[VerdictGroup, tuple[str, str]] = {
    "regressed": ("regressed", "regressed"),
    "broken": ("broken", "broken"),
    "candidate": ("looks worse but is unproven", "look worse but are unproven"),
    "improved": ("improved", "improved"),
    "fixed": ("fixed", "fixed"),
    "unchanged": ("unchanged", "unchanged"),
    "unjudged": ("could not be judged", "could not be judged"),
    "missing": ("missing", "missing"),
    "new": ("new", "new"),
    "not-affected": ("not affected and not measured", "not affected and not measured"),
}
"""How each group is called after its count, in singular and plural; the most important groups come first."""


def group_of(verdict: Verdict) -> VerdictGroup:
    """The group that a verdict belongs to."""
    if verdict.candidate and not verdict.is_red:
        return "candidate"
    if verdict.verdict == "noisy" or verdict.verdict == "not-comparable":  # so that mypy narrows
        return "unjudged"
    return verdict.verdict


def grouped(verdicts: Iterable[Verdict]) -> dict[VerdictGroup, list[Verdict]]:
    """The verdicts by group, in the order of :data:`COUNTED`; the largest changes come first in each group."""
    found: dict[VerdictGroup, list[Verdict]] = {group: [] for group in COUNTED}
    for verdict in sorted(verdicts, key=_size_of_change, reverse=True):
        found[group_of(verdict)].append(verdict)
    return found


def count_verdicts(verdicts: Iterable[Verdict]) -> str:
    """The counts of all groups, ``2 regressed, 1 broken, 61 unchanged, 4 could not be judged``; empty if all are 0."""
    found = grouped(verdicts)
    return ", ".join(
        f"{len(found[group])} {many if len(found[group]) > 1 else one}"
        for group, (one, many) in COUNTED.items()
        if found[group]
    )


def _size_of_change(verdict: Verdict) -> float:
    return verdict.effect.size if verdict.effect else 0.0


JUDGED: tuple[VerdictWord, ...] = ("regressed", "broken", "improved", "fixed", "unchanged")
_OPEN: tuple[VerdictWord, ...] = ("missing", "noisy", "not-comparable", "new")
_QUIETER = "a quieter machine (torchperf doctor shows what disturbs it)"
_TAKES: Mapping[str, Mapping[VerdictWord, str]] = {
    "check": {
        "noisy": f"more runs, or {_QUIETER}",
        "not-comparable": "more runs on this machine, or this run on the machine of the earlier ones",
        "missing": "what the reasons of the missing series call for",
        "new": "more runs of the new series",
    },
    "compare": {
        "noisy": f"{_QUIETER}, or more pairs: a longer --budget, or fewer cases",
        "not-comparable": "both sides measured under the same conditions",
        "missing": "what the reasons of the missing series call for",
        "new": "a base that has the new workloads",
    },
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
    left = [one for one in verdicts if not (is_first and one.verdict == "new")]
    times = [one for one in verdicts if is_latency(one.series.metric)]
    enough = judged > 0 and 2 * judged >= len(verdicts) and 2 * _judged(times) >= len(times)
    return Coverage(judged, len(left) - judged, is_first, enough or bool(judgement.verdicts and not verdicts))


def to_judge(judgement: Judgement) -> list[Verdict]:
    """All verdicts except on series that the change cannot affect."""
    return [one for one in judgement.verdicts if one.verdict != "not-affected"]


def is_first_run(verdicts: Sequence[Verdict]) -> bool:
    """Whether no series has any history: all are new, apart from those that could not be measured."""
    words = {one.verdict for one in verdicts}
    return "new" in words and words <= {"new", "missing"}


def is_enough(judgements: Sequence[Judgement]) -> bool:
    """Whether enough was judged in each file that is not a first run; False if all of them are."""
    known = [one for one in map(coverage, judgements) if not one.is_first]
    return bool(known) and all(one.is_enough for one in known)


def shortfall(judgement: Judgement) -> str:
    """One sentence on how little was judged, and why; empty if it was enough or this is a first run."""
    found, verdicts = coverage(judgement), to_judge(judgement)
    if found.is_enough or found.is_first or not verdicts:
        return ""
    times = [one for one in verdicts if is_latency(one.series.metric)]
    of_all = f"{found.judged} of {len(verdicts)} series were judged"
    of_times = f", and {_judged(times)} of {len(times)} timings" if 0 < len(times) < len(verdicts) else ""
    return f"Only {of_all}{of_times}: {'; '.join(_reasons(verdicts))}."


def what_it_takes(judgement: Judgement) -> str:
    """What it would take to judge the rest."""
    known = _TAKES.get(judgement.command, _TAKES["check"])
    counted = Counter(one.verdict for one in judgement.verdicts if one.verdict in _OPEN)
    return "; ".join(known[word] for word, _ in counted.most_common())


def _reasons(verdicts: Sequence[Verdict]) -> Iterator[str]:
    """The most common reason for each verdict that is not a judgement."""
    found = {word: Counter(one.why for one in verdicts if one.verdict == word) for word in _OPEN}
    for word, reasons in sorted(found.items(), key=lambda item: item[1].total(), reverse=True):
        if reasons:
            why, _ = reasons.most_common(1)[0]
            yield f"{reasons.total()} {word} ({'' if len(reasons) == 1 else 'for example: '}{why})"


def _judged(verdicts: Sequence[Verdict]) -> int:
    return sum(one.verdict in JUDGED for one in verdicts)


GREEN, LITTLE = "✅", "⚪"
FIRST_JUDGED = "sixth"
"""The first run that is judged: the gate estimates noise from five earlier runs."""


def sign(judgements: Sequence[Judgement]) -> str:
    """❌ if something is red, ⚠️ if something looks worse, ✅ if enough was judged, else ⚪."""
    found = grouped(_all_verdicts(judgements))
    if found["regressed"] or found["broken"]:
        return "❌"
    if found["candidate"]:
        return "⚠️"
    return GREEN if is_enough(judgements) else LITTLE


def headline(judgements: Sequence[Judgement]) -> str:
    """One sentence with all counts. If nothing stands out and little was judged, it starts by saying so."""
    verdicts = _all_verdicts(judgements)
    if not verdicts:
        return "nothing was judged"
    if all(coverage(one).is_first for one in judgements if one.verdicts):
        return _first_run(judgements, verdicts)
    return f"{'too little could be judged: ' if sign(judgements) == LITTLE else ''}{count_verdicts(verdicts)}"


def new_series(judgement: Judgement) -> str:
    """A line about new series among others; empty if there are none, or if the headline says it."""
    new = [one for one in judgement.verdicts if is_only_new(one, judgement)]
    if not new or coverage(judgement).is_first:
        return ""
    judged = judgement.command == "check"
    return _are_new(len(new), judged=judged) + ("" if judged else ": base has nothing to compare with")


def is_only_new(verdict: Verdict, judgement: Judgement) -> bool:
    """Whether there is nothing to say about a series but that it has no history yet.

    There is more to say of a series that fails at once, or that ``compare`` could not measure because base has no
    such workload.
    """
    is_measured = judgement.command == "check" or (judgement.command == "compare" and verdict.new is not None)
    return is_measured and verdict.verdict == "new" and not verdict.evidence.failing


def _first_run(judgements: Sequence[Judgement], verdicts: Sequence[Verdict]) -> str:
    new = [one for one in verdicts if one.verdict == "new"]
    said = _are_new(len(new), judged=all(one.command == "check" for one in judgements))
    rest = count_verdicts(one for one in verdicts if one.verdict != "new")
    return f"{said}; {rest}" if rest else said


def _are_new(count: int, *, judged: bool) -> str:
    said, they = (f"{count} series are new", "they are") if count > 1 else ("1 series is new", "it is")
    return f"{said}; {they} judged from the {FIRST_JUDGED} run on" if judged else said


def _all_verdicts(judgements: Sequence[Judgement]) -> list[Verdict]:
    return [verdict for judgement in judgements for verdict in judgement.verdicts]
