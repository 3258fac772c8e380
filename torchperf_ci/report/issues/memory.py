"""What an issue remembers, hidden in its own body: a comment that GitHub does not show.

Its JSON holds no ``--``, ``<`` or ``>`` literally, so that it cannot end the comment, and no ``@`` or ``#``. What is
read back was open to everybody who may edit the issue: only what ``memory.schema.json`` allows is taken for ours.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from functools import partial
from math import inf, log
from typing import TYPE_CHECKING

from torchperf_ci.markdown import fitted
from torchperf_ci.report.issues.finding import Memory
from torchperf_ci.report.issues.memory_json import members_of, memory_of, rounded

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torchperf_ci.report.issues.finding import Finding, Row
    from torchperf_ci.series.series import Series

ROOM = 30_000
"""Bytes that it may take of an issue's 65,536: some 200 rows. Of more, those with the largest effects are kept."""
MARKER = re.compile(r"^<!-- torchperf:memory (\{[^\r\n]*?\}) -->(?=\r?$)", re.MULTILINE)

_ESCAPED = {"--": r"\u002d\u002d", "<": r"\u003c", ">": r"\u003e", "@": r"\u0040", "#": r"\u0023"}


def embed(memory: Memory) -> str:
    """One line of Markdown that shows nothing."""
    ranked = replace(memory, rows=tuple(sorted(map(rounded, memory.rows), key=size_of, reverse=True)))
    return fitted(partial(_line, ranked), ROOM, len(ranked.rows)) or _line(ranked, 0)


def recall(body: str) -> Memory | None:
    """The memory in an issue's body; None where there is not exactly one, or it is none of ours."""
    found = MARKER.findall(body)
    if len(found) != 1:
        return None
    try:
        members = json.loads(found[0], parse_constant=_refuse)
        json.dumps(members, ensure_ascii=False).encode()  # half a surrogate pair is no text
        return memory_of(members)
    except (ValueError, IndexError, RecursionError):
        return None


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


def size_of(row: Row) -> float:
    """How much changed: the absolute logarithm of the ratio; 0 where there is none."""
    ratio = row.effect.ratio if row.effect else 1.0
    return abs(log(ratio)) if 0 < ratio < inf else inf


def _last_of_each(rows: Sequence[Row]) -> tuple[Row, ...]:
    known: dict[Series, Row] = {}
    for row in rows:
        before = known.get(row.series)
        kept = row if before is None or row.proven else before
        known[row.series] = replace(kept, night=max(row.night, before.night if before else ""))
    return tuple(known.values())


def _line(memory: Memory, rows: int) -> str:
    kept = replace(memory, rows=memory.rows[:rows])
    text = json.dumps(members_of(kept), separators=(",", ":"), allow_nan=False)
    for literal, escaped in _ESCAPED.items():
        text = text.replace(literal, escaped)
    return f"<!-- torchperf:memory {text} -->"


def _refuse(constant: str) -> float:
    raise ValueError(constant)
