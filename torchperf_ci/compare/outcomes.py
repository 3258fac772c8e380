"""Cases that one side, or both, cannot run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchperf_ci.metrics import STATUS
from torchperf_ci.verdicts.verdict import Verdict, Word

if TYPE_CHECKING:
    from collections.abc import Callable

    from torchperf_ci.bench.process import Outcome
    from torchperf_ci.compare.trial import ComparedCase
    from torchperf_ci.series.series import Series


def judge_outcome(series: Callable[[str], Series], compared: ComparedCase) -> Verdict:
    """Broken if only head fails, fixed if only base does, else missing: then nothing can be said."""
    base, head = compared.alone["base"], compared.alone["head"]
    word, why = _found(base, head, compared)
    return Verdict(series(STATUS), word, why, old=float(base.passed), new=float(head.passed))


def _found(base: Outcome, head: Outcome, compared: ComparedCase) -> tuple[Word, str]:
    if base.passed and head.passed:
        last = compared.lost[-1]
        return (
            "missing",
            f"each side runs alone, but not beside the other: {last.side}: {last.status}: {last.reason}",
        )
    if base.passed:
        return "broken", f"passes on base, on head {_said(head)}"
    if head.passed:
        return "fixed", f"passes on head, on base {_said(base)}"
    return "missing", f"runs on neither side: {_said(head)}"


def _said(outcome: Outcome) -> str:
    return f"{outcome.status}: {outcome.reason}" if outcome.reason else outcome.status
