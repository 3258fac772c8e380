"""What somebody should do now, in GitHub's Markdown: a sentence, and the lines that it speaks of."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchperf_ci.verdicts.again import code, compare_lines, run_lines, where
from torchperf_ci.verdicts.coverage import shortfall, takes
from torchperf_ci.verdicts.groups import Group, grouped
from torchperf_ci.verdicts.headline import GREEN, sign
from torchperf_ci.verdicts.turn import turn_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from torchperf_ci.verdicts.verdict import Again, Judgement, Verdict

_MEANT = " If it is meant to be slower, say why."
_NONE = (
    "**Next step:** none; “detectable” is the change that would have been seen, and torchperf doctor says what "
    "disturbs."
)
_STEPS: Mapping[Group, tuple[str, str]] = {
    "regressed": ("measure the worst on your machine", _MEANT),
    "broken": ("run it by itself and read its error", ""),
    "candidate": ("measure it again, which tells whether the change is real", ""),
}


def next_step(judgements: Sequence[Judgement]) -> list[str]:
    """Paragraphs; none where there is nothing to do. That there is nothing to do is only said of what is green."""
    for group, (what, then) in _STEPS.items():
        found = grouped(verdict for one in judgements for verdict in one.verdicts)[group]
        if found:
            of = next(one for one in judgements if any(verdict is found[0] for verdict in one.verdicts))
            lines, there = _lines(found[0], of.again) if of.again else ([], "")
            said = f"**Next step:** {what}{f', {there}' if there else ''}.{then}"
            return [said, code(lines)] if lines else [said]
    if little := [one for one in judgements if shortfall(one)]:
        rest = "; ".join(dict.fromkeys(map(takes, little)))
        return [f"**Next step:** give it what it takes to judge the rest: {rest}."]
    unjudged = any(one.verdict == "noisy" for judgement in judgements for one in judgement.verdicts)
    return [_NONE] if unjudged and sign(judgements) == GREEN else []


def _lines(verdict: Verdict, again: Again) -> tuple[list[str], str]:
    """The lines that measure it again, and what they need; nothing where nobody knows between which commits."""
    ends = (again.base, again.head) if again.base and again.head else turn_of(verdict).own
    if verdict.verdict == "broken" and not (again.base and again.head):
        return run_lines(again, verdict.series), where(again.torch)
    if ends is None:
        return [], ""
    return compare_lines(again, *ends, verdict.series), where(again.torch)
