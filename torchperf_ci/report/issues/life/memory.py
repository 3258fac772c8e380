"""What an issue remembers of the nights that it tells of."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torchperf_ci.report.issues.causes.finding import Finding, Kind, Row
    from torchperf_ci.series.series import Series


@dataclass(frozen=True)
class Memory:
    """What it is about, and since when.

    ``fingerprints`` are those of all findings that it was about, ``opened`` and ``reported`` the first and the last
    night (ISO dates) that it tells of, ``recovered`` the nights in a row on which everything was back, ``accepted``
    that somebody who may has said that it is meant to be so.
    """

    kind: Kind
    fingerprints: tuple[str, ...]
    rows: tuple[Row, ...]
    opened: str
    reported: str
    recovered: tuple[str, ...] = ()
    accepted: bool = False


def merged(memory: Memory | None, finding: Finding, night: str) -> Memory:
    """What is remembered of a finding beside what was known; ``None`` where nothing was, and the issue is new.

    A row that is known keeps its numbers, which are the evidence of its first night, until pairs have proven them.
    """
    if memory is None:
        return Memory(finding.kind, (finding.fingerprint,), _last_of_each(finding.rows), night, night)
    return replace(
        memory,
        kind=finding.kind,
        fingerprints=tuple(dict.fromkeys((*memory.fingerprints, finding.fingerprint))),
        rows=_last_of_each((*memory.rows, *finding.rows)),
        reported=max(memory.reported, night),
    )


def _last_of_each(rows: Sequence[Row]) -> tuple[Row, ...]:
    known: dict[Series, Row] = {}
    for row in rows:
        before = known.get(row.series)
        kept = row if before is None or row.proven else before
        known[row.series] = replace(kept, night=max(row.night, before.night if before else ""))
    return tuple(known.values())
