"""The one standing issue of what found no room in a night, since no more than so many issues may be opened."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchperf_ci.culprits.words import name
from torchperf_ci.markdown import fitted, table
from torchperf_ci.report.issues.life.hidden import embed
from torchperf_ci.report.issues.texts.body import LIMIT, kept
from torchperf_ci.report.issues.texts.reproducing import reproducing
from torchperf_ci.report.issues.texts.words import largest, numbers, plain, what_got_worse

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from torchperf_ci.report.issues.causes.finding import Finding
    from torchperf_ci.report.issues.life.memory import Memory
    from torchperf_ci.report.issues.texts.context import Context

_MOST = 500
"""Findings in the table."""
_WHY = "no more than `issues.max_per_night` of `torchperf.yml` are opened in a night, the largest first."
_NEXT = (
    "**Next step:** none. The next nights open issues for them; this one is kept up to date, and closes itself when "
    "nothing is left."
)
_COLUMNS = ("what", "change (95%)", "why", "to reproduce it")


def title() -> str:
    """Always the same, since it is always the same issue."""
    return "Performance findings that have no issue of their own yet"


def body(findings: Sequence[Finding], memory: Memory, context: Context) -> str:
    """The whole text, at most 65,536 bytes of UTF-8; findings that have no room are counted."""
    many = f"**{len(findings)} findings** have" if len(findings) != 1 else "**1 finding** has"
    said = f"{many} no issue of their own, as of {context.night}: {_WHY}"
    top = [embed(memory), said, _NEXT]

    def document(rows: int) -> str:
        return (
            "\n\n".join([*top, table(_COLUMNS, [_cells(one) for one in findings], rows), *kept(context)])
            + "\n"
        )

    return fitted(document, LIMIT, min(len(findings), _MOST)) or f"{top[0]}\n"


def _cells(finding: Finding) -> Iterator[str]:
    if finding.kind == "broken":
        what, change, who = f"{finding.rows[0].series.model} fails", "", finding.why
    else:
        what, change = (
            what_got_worse(finding.rows),
            numbers(largest(finding.rows)[0])[1] if finding.rows else "",
        )
        who = name(finding.culprit) if finding.culprit else f"no commit is proven: {finding.why}"
    again = " && ".join(reproducing(finding).lines)
    yield from (plain(what), plain(change), plain(who), f"<code>{plain(again)}</code>" if again else "")
