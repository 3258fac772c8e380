"""What is said under an issue: short, since everybody who follows it is notified."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from torchperf_ci.actions import one_line
from torchperf_ci.culprits.markdown import links
from torchperf_ci.culprits.words import byline, name
from torchperf_ci.report.issues.texts.table import evidence, shown
from torchperf_ci.report.issues.texts.words import (
    largest,
    plain,
    what_got_worse,
)
from torchperf_ci.verdicts.again import code

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from torchperf_ci.culprits.culprit import Culprit
    from torchperf_ci.report.issues.causes.finding import Finding, Row
    from torchperf_ci.report.issues.life.memory import Memory
    from torchperf_ci.report.issues.texts.context import Context
    from torchperf_ci.series.series import Series

_MOST = 20
"""Rows of a table in a comment; the issue has all of them."""


def new_evidence(rows: Sequence[Row], context: Context) -> str:
    """More series show the same."""
    said = f"Also seen in the night of {context.night}: **{plain(what_got_worse(rows))}**"
    return f"{said}\n\n{shown(largest(rows), _MOST)}\n"


def located(finding: Finding, context: Context) -> str:
    """The commit is known now."""
    who = _who(finding.culprit, context) if finding.culprit else "see above"
    return f"The commit is found: {who}. The text above is rewritten with what is known now.\n"


def recovered(memory: Memory, now: Mapping[Series, float], context: Context) -> str:
    """Everything was back for some nights, which the memory has; ``now`` are the levels of tonight."""
    nights = f"{len(memory.recovered)} nights in a row" if len(memory.recovered) > 1 else "the last night"
    what = "It passed again" if memory.kind == "broken" else "Back where it was"
    said = f"{what} for {nights}, up to {context.night}, so this is closed. Should it come back, this is opened again."
    return "\n\n".join([said, *_evidence(memory, now)]) + "\n"


def relapsed(memory: Memory, now: Mapping[Series, float], finding: Finding | None, context: Context) -> str:
    """It is there again; ``finding`` is tonight's, which may name another culprit."""
    if finding and finding.text:
        return f"Again: {finding.why}. The text above is renewed.\n"
    culprit = finding.culprit if finding else None
    who = f" This time because of {_who(culprit, context)}." if culprit else ""
    why = f"\n\n{code([one_line(finding.why)])}" if finding and memory.kind == "broken" else ""
    said = f"It {'fails again' if memory.kind == 'broken' else 'is back'} since the night of {context.night}.{who}{why}"
    return "\n\n".join([said, *_evidence(memory, now)]) + "\n"


def accepted(memory: Memory, context: Context) -> str:
    """Somebody has given it the label that says that it is meant."""
    names = sorted({row.series.model for row in memory.rows})
    reason = f"Accepted: {what_got_worse(memory.rows)}"
    line = shlex.join(["torchperf", "baseline", "update", "--reason", reason, "RECORDS"])
    more = f" ({len(names)} benchmarks)" if len(names) > 1 else ""
    return (
        f"Accepted as meant in the night of {context.night}, so this is closed{more}: the new levels are taken for "
        "granted, and only what is worse than they are is told again. Who keeps a committed baseline renews it:\n\n"
        f"{code([line])}\n"
    )


def duplicate(number: int) -> str:
    """Another issue is of the same."""
    return f"The same as #{int(number)}, which stays.\n"


def _who(culprit: Culprit, context: Context) -> str:
    return f"**{plain(name(culprit))}** {plain(byline(culprit))}{links(culprit, context.server)}"


def _evidence(memory: Memory, now: Mapping[Series, float]) -> list[str]:
    return [] if memory.kind == "broken" else [evidence(largest(memory.rows), now, _MOST)]
