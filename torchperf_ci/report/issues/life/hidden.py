"""A memory in the body of its issue: a comment that GitHub does not show.

Its JSON holds no ``--``, ``<`` or ``>`` literally, so that it cannot end the comment, and no ``@`` or ``#``. What is
read back was open to everybody who may edit the issue: only what ``memory.schema.json`` allows is taken for ours.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING

from torchperf_ci.markdown import fitted
from torchperf_ci.report.issues.life.memory_json import members_of, memory_of, rounded

if TYPE_CHECKING:
    from torchperf_ci.report.issues.life.memory import Memory

ROOM = 30_000
"""Bytes that it may take of an issue's 65,536: some 200 rows. Of more, those with the largest effects are kept."""
MARKER = re.compile(r"^<!-- torchperf:memory (\{[^\r\n]*?\}) -->(?=\r?$)", re.MULTILINE)

_ESCAPED = {"--": r"\u002d\u002d", "<": r"\u003c", ">": r"\u003e", "@": r"\u0040", "#": r"\u0023"}


def embed(memory: Memory) -> str:
    """One line of Markdown that shows nothing."""
    rows = sorted(map(rounded, memory.rows), key=attrgetter("size"), reverse=True)
    ranked = replace(memory, rows=tuple(rows))
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


def _line(memory: Memory, rows: int) -> str:
    kept = replace(memory, rows=memory.rows[:rows])
    text = json.dumps(members_of(kept), separators=(",", ":"), allow_nan=False)
    for literal, escaped in _ESCAPED.items():
        text = text.replace(literal, escaped)
    return f"<!-- torchperf:memory {text} -->"


def _refuse(constant: str) -> float:
    raise ValueError(constant)
