"""What an action says: the issue's title and body, and the comment that people are notified of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from torchperf_ci.report.issues.causes.points import level_of
from torchperf_ci.report.issues.texts import comments
from torchperf_ci.report.issues.texts.body import body, renewed
from torchperf_ci.report.issues.texts.title import title

if TYPE_CHECKING:
    from torchperf_ci.report.issues.life.action import Action
    from torchperf_ci.report.issues.texts.context import Context
    from torchperf_ci.series.series import Series


@dataclass(frozen=True)
class Text:
    """``title`` is empty where the issue keeps its own, ``comment`` where nobody needs to be notified."""

    body: str
    title: str = ""
    comment: str = ""


def text_of(action: Action, context: Context) -> Text:
    """What to write."""
    if action.what in ("open", "locate"):
        (finding, *_) = action.findings
        said = comments.located(finding, context) if action.what == "locate" else ""
        return Text(body(finding, action.memory, context), title(finding), said)
    written = next(
        (body(finding, action.memory, context) for finding in action.findings if finding.text), None
    )
    text = action.issue.body if action.issue else ""
    return Text(written or renewed(text, action.memory), comment=_comment(action, context))


def _comment(action: Action, context: Context) -> str:
    match action.what:
        case "extend":
            return comments.new_evidence(action.rows, context)
        case "recover":
            now = _now(action)
            return f"{action.over}\n" if action.over else comments.recovered(action.memory, now, context)
        case "reopen":
            finding = action.findings[0] if action.findings else None
            return comments.relapsed(action.memory, _now(action), finding, context)
        case "accept":
            return comments.accepted(action.memory, context)
        case _:
            return ""


def _now(action: Action) -> dict[Series, float]:
    """Tonight's levels."""
    levels = ((one.series, level_of(one)) for one in action.verdicts)
    return {series: level for series, level in levels if level is not None}
