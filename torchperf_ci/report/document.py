"""A whole report as one text: verdicts, then culprits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchperf_ci.culprits.markdown import GITHUB
from torchperf_ci.culprits.markdown import markdown as culprits_markdown
from torchperf_ci.markdown import size
from torchperf_ci.verdicts.markdown import markdown as verdicts_markdown

if TYPE_CHECKING:
    from torchperf_ci.report.told import Told

_LEAST = 4_000
"""Bytes that a bisection needs to say anything."""


def document(told: Told, room: int, server: str = GITHUB) -> str:
    """All there is to say in at most ``room`` bytes, which must be some thousands.

    Half of it is kept for the bisections, which share what the verdicts leave; those that it does not suffice for are
    counted.
    """
    share = room // 2 if told.locations else room
    parts = [verdicts_markdown(told.judgements, share)] if told.judgements else []
    for index, location in enumerate(told.locations):
        left = room - sum(map(size, parts)) - len(parts)
        rest = len(told.locations) - index
        if left < _LEAST:
            parts.append(f"…and {rest} more bisections, left out here\n"[:left])
            break
        parts.append(culprits_markdown(location, max(left // rest, _LEAST // 2), server))
    return "\n".join(parts)
