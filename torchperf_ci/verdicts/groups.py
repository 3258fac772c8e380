"""Verdicts in the groups that people think in, and how many there are of each."""

from __future__ import annotations

from math import inf, log
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from torchperf_ci.verdicts.verdict import Verdict

Group = Literal[
    "regressed", "broken", "candidate", "improved", "fixed", "unchanged", "unjudged", "missing", "new"
]
COUNTED: Mapping[Group, tuple[str, str]] = {
    "regressed": ("regressed", "regressed"),
    "broken": ("broken", "broken"),
    "candidate": ("looks worse without proof yet", "look worse without proof yet"),
    "improved": ("improved", "improved"),
    "fixed": ("fixed", "fixed"),
    "unchanged": ("unchanged", "unchanged"),
    "unjudged": ("could not be judged", "could not be judged"),
    "missing": ("missing", "missing"),
    "new": ("new", "new"),
}
"""What a group is called after the number of its verdicts, one and several; those that matter most come first."""


def group_of(verdict: Verdict) -> Group:
    """The one group that a verdict is in."""
    if verdict.candidate and not verdict.is_red:
        return "candidate"
    if verdict.verdict == "noisy" or verdict.verdict == "not-comparable":  # so that mypy narrows
        return "unjudged"
    return verdict.verdict


def grouped(verdicts: Iterable[Verdict]) -> dict[Group, list[Verdict]]:
    """Every group in the order of :data:`COUNTED`, in each the largest change first."""
    found: dict[Group, list[Verdict]] = {group: [] for group in COUNTED}
    for verdict in sorted(verdicts, key=_size, reverse=True):
        found[group_of(verdict)].append(verdict)
    return found


def counted(verdicts: Iterable[Verdict]) -> str:
    """Everything counted: ``2 regressed, 1 broken, 61 unchanged, 4 could not be judged``; empty for nothing."""
    found = grouped(verdicts)
    return ", ".join(
        f"{len(found[group])} {many if len(found[group]) > 1 else one}"
        for group, (one, many) in COUNTED.items()
        if found[group]
    )


def _size(verdict: Verdict) -> float:
    if verdict.effect is None:
        return 0.0
    return abs(log(verdict.effect.ratio)) if verdict.effect.ratio > 0 else inf
