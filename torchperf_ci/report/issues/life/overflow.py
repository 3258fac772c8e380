"""The digest: one issue for all that found no room in a night. Pure."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from torchperf_ci.report.issues.causes.finding import Finding
from torchperf_ci.report.issues.causes.fingerprint import fingerprint
from torchperf_ci.report.issues.life.action import Action
from torchperf_ci.report.issues.life.hidden import embed, recall
from torchperf_ci.report.issues.life.matching import series_of
from torchperf_ci.report.issues.life.memory import Memory
from torchperf_ci.report.issues.life.recovery import is_back

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from torchperf_ci.report.issues.causes.finding import Row
    from torchperf_ci.report.issues.life.ours import Ours
    from torchperf_ci.series.series import Series
    from torchperf_ci.verdicts.verdict import Verdict

FINGERPRINT = fingerprint("digest")
_EARLIER = "It was found on {}, when there was no room for it, and has not been judged regressed since."


def digest(
    crowded: Sequence[Finding],
    known: Sequence[Ours],
    held: set[Series],
    told: Mapping[Series, Sequence[Verdict]],
    night: str,
) -> Iterator[Action]:
    """What becomes of the digest, if anything does; ``held`` are the series that have an issue by tonight.

    What it held on an earlier night stays in it until it is back, or has an issue. Somebody who closes it is done with
    what is in it, not with what comes.
    """
    issue = next((one for one in known if FINGERPRINT in one.memory.fingerprints), None)
    if issue and night < issue.memory.reported:
        return
    before = issue.memory.rows if issue else ()
    waiting = tuple(_waiting(before, held | series_of(row for one in crowded for row in one.rows), told))
    findings = (*crowded, *waiting)
    rows = tuple({row.series: row for one in findings for row in one.rows}.values())
    memory = Memory("digest", (FINGERPRINT,), rows, issue.memory.opened if issue else night, night)
    memory = recall(embed(memory)) or memory
    fresh = tuple(row for row in memory.rows if row.series not in series_of(before))
    if issue is None:
        if findings:
            yield Action("open", memory, findings=findings, rows=fresh)
    elif issue.is_open:
        yield Action("remember" if findings else "recover", memory, issue, findings, fresh)
    elif fresh:
        yield Action("reopen", memory, issue, findings, fresh)
    elif memory.rows != before:
        yield Action("remember", memory, issue, findings)


def _waiting(
    rows: Sequence[Row], elsewhere: set[Series], told: Mapping[Series, Sequence[Verdict]]
) -> Iterator[Finding]:
    """One finding for each series that is only here, and not back as far as tonight can say."""
    for row in rows:
        if row.series not in elsewhere and not is_back(row, told.get(row.series, ())):
            name = fingerprint("digest", repr(row.series))
            yield Finding("unlocated", name, (replace(row, proven=False),), why=_EARLIER.format(row.night))
