"""The mark of judgements, and the sentence beside it: the same in every report."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchperf_ci.verdicts.coverage import coverage, is_enough
from torchperf_ci.verdicts.groups import counted, grouped

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torchperf_ci.verdicts.verdict import Judgement, Verdict

GREEN, LITTLE = "✅", "⚪"
FIRST_JUDGED = "sixth"
"""The run before which five are known, which is what the gate wants to tell noise by."""


def sign(judgements: Sequence[Judgement]) -> str:
    """❌ where something is red, ⚠️ where something looks worse, ✅ where enough was judged, else ⚪."""
    found = grouped(_verdicts(judgements))
    if found["regressed"] or found["broken"]:
        return "❌"
    if found["candidate"]:
        return "⚠️"
    return GREEN if is_enough(judgements) else LITTLE


def headline(judgements: Sequence[Judgement]) -> str:
    """One sentence that counts everything; where nothing stands out, it first says that little was judged if it was."""
    verdicts = _verdicts(judgements)
    if not verdicts:
        return "nothing was judged"
    if all(coverage(one).is_first for one in judgements if one.verdicts):
        return _first_run(judgements, verdicts)
    return f"{'little could be judged: ' if sign(judgements) == LITTLE else ''}{counted(verdicts)}"


def news(judgement: Judgement) -> str:
    """What becomes of series that are new beside others; empty where there are none, and where it is the headline."""
    new = [one for one in judgement.verdicts if is_only_new(one, judgement)]
    return _are_new(len(new), judged=True) if new and not coverage(judgement).is_first else ""


def is_only_new(verdict: Verdict, judgement: Judgement) -> bool:
    """Whether there is nothing to say of a series but that it has no past yet; one that fails at once has more."""
    return judgement.command == "check" and verdict.verdict == "new" and "failing" not in verdict.evidence


def _first_run(judgements: Sequence[Judgement], verdicts: Sequence[Verdict]) -> str:
    new = [one for one in verdicts if one.verdict == "new"]
    said = _are_new(len(new), judged=all(one.command == "check" for one in judgements))
    rest = counted(one for one in verdicts if one.verdict != "new")
    return f"{said}; {rest}" if rest else said


def _are_new(count: int, *, judged: bool) -> str:
    said, they = (f"{count} series are new", "they are") if count > 1 else ("1 series is new", "it is")
    return f"{said}; from the {FIRST_JUDGED} run on {they} judged" if judged else said


def _verdicts(judgements: Sequence[Judgement]) -> list[Verdict]:
    return [verdict for judgement in judgements for verdict in judgement.verdicts]
