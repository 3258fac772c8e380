"""What is to be done with issues tonight."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from torchperf_ci.report.issues.causes.finding import Finding, Row
    from torchperf_ci.report.issues.life.memory import Memory
    from torchperf_ci.report.issues.life.ours import Ours
    from torchperf_ci.verdicts.verdict import Verdict

What = Literal["open", "extend", "locate", "reopen", "recover", "accept", "duplicate", "remember"]
"""A new issue; new evidence; a culprit for one that had none; a relapse; all is back; it is meant to be so; the same as
another issue; nothing that people need to be told."""


@dataclass(frozen=True)
class Action:
    """What is to be done with ``issue``, or with a new one, which then remembers ``memory``.

    ``findings`` are tonight's that belong to it, the most telling first, ``rows`` those that it did not have before,
    and ``verdicts`` tonight's of its series. ``other`` is the issue that says the same, ``over`` how it is known that
    what the issue is about is over.
    """

    what: What
    memory: Memory
    issue: Ours | None = None
    findings: tuple[Finding, ...] = ()
    rows: tuple[Row, ...] = ()
    verdicts: tuple[Verdict, ...] = ()
    other: Ours | None = None
    over: str = ""


@dataclass(frozen=True)
class Plan:
    """All that is to be done tonight, new regressions first.

    ``about`` are the issues that tonight's findings belong to, ``left_over`` the findings that there is no room for,
    and ``settled`` those of which people have decided, each with the issue in which they did.
    """

    actions: tuple[Action, ...] = ()
    about: tuple[Ours, ...] = ()
    left_over: tuple[Finding, ...] = ()
    settled: tuple[tuple[Finding, Ours], ...] = ()
