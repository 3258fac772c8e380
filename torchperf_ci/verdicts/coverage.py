"""How much of what was asked for has been judged: a pass needs enough of it.

Enough is at least half of the series, and at least half of those that are times: memory that stays the same says
nothing of speed that nobody could tell.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from torchperf_ci.metrics import is_latency

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from torchperf_ci.verdicts.verdict import Judgement, Verdict, Word

JUDGED: tuple[Word, ...] = ("regressed", "broken", "improved", "fixed", "unchanged")
_OPEN: tuple[Word, ...] = ("missing", "noisy", "not-comparable", "new")
_QUIETER = "a quieter machine (torchperf doctor says what disturbs it)"
_TAKES: Mapping[str, Mapping[Word, str]] = {
    "check": {
        "noisy": f"more runs, or {_QUIETER}",
        "not-comparable": "more runs on the machine of this one, or this run on the machine of the past",
        "missing": "what the reasons of the missing ones ask for",
        "new": "more runs of what is new",
    },
    "compare": {
        "noisy": f"{_QUIETER}, or more pairs: a longer --budget, or fewer cases",
        "not-comparable": "both sides measured under the same conditions",
        "missing": "what the reasons of the missing ones ask for",
        "new": "a base that has what is new",
    },
}


@dataclass(frozen=True)
class Coverage:
    """Series that were ``judged`` and that were not. In a first run all is new, which is neither."""

    judged: int
    unjudged: int
    is_first: bool
    is_enough: bool


def coverage(judgement: Judgement) -> Coverage:
    """That of one file."""
    verdicts = judgement.verdicts
    judged, is_first = _judged(verdicts), is_first_run(verdicts)
    left = [one for one in verdicts if not (is_first and one.verdict == "new")]
    times = [one for one in verdicts if is_latency(one.series.metric)]
    enough = judged > 0 and 2 * judged >= len(verdicts) and 2 * _judged(times) >= len(times)
    return Coverage(judged, len(left) - judged, is_first, enough)


def is_first_run(verdicts: Sequence[Verdict]) -> bool:
    """Whether there is no past of anything: all is new, but for what could not be measured."""
    words = {one.verdict for one in verdicts}
    return "new" in words and words <= {"new", "missing"}


def is_enough(judgements: Sequence[Judgement]) -> bool:
    """Whether each file has enough that was judged, those of a first run apart; False where nothing else is there."""
    known = [one for one in map(coverage, judgements) if not one.is_first]
    return bool(known) and all(one.is_enough for one in known)


def shortfall(judgement: Judgement) -> str:
    """In one sentence how little was judged, and why; empty where it was enough, and in a first run."""
    found = coverage(judgement)
    if found.is_enough or found.is_first or not judgement.verdicts:
        return ""
    times = [one for one in judgement.verdicts if is_latency(one.series.metric)]
    of_all = f"{found.judged} of {len(judgement.verdicts)} series were judged"
    of_times = (
        f", and {_judged(times)} of {len(times)} times" if 0 < len(times) < len(judgement.verdicts) else ""
    )
    return f"Only {of_all}{of_times}: {'; '.join(_reasons(judgement.verdicts))}."


def takes(judgement: Judgement) -> str:
    """What it would take to judge the rest."""
    known = _TAKES.get(judgement.command, _TAKES["check"])
    counted = Counter(one.verdict for one in judgement.verdicts if one.verdict in _OPEN)
    return "; ".join(known[word] for word, _ in counted.most_common())


def _reasons(verdicts: Sequence[Verdict]) -> Iterator[str]:
    """By word, the most common reason."""
    found = {word: Counter(one.why for one in verdicts if one.verdict == word) for word in _OPEN}
    for word, reasons in sorted(found.items(), key=lambda item: item[1].total(), reverse=True):
        if reasons:
            why, _ = reasons.most_common(1)[0]
            yield f"{reasons.total()} {word} ({'' if len(reasons) == 1 else 'such as: '}{why})"


def _judged(verdicts: Sequence[Verdict]) -> int:
    return sum(one.verdict in JUDGED for one in verdicts)
