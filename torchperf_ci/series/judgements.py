"""Files that torchperf itself writes about records, and that may lie among them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torchperf_ci.records.reading import Reading

_MEMBERS = ({"version", "verdicts"}, {"version", "baselines"})
"""What ``verdicts.json`` and ``baseline.json`` have, and no record has."""


def is_judgement(reading: Reading) -> bool:
    """Whether a file is verdicts or a baseline, not records."""
    if reading.records or len(reading.refused) != 1:
        return False
    try:
        found = json.loads(reading.refused[0].text)
    except (ValueError, RecursionError):
        return False
    return isinstance(found, dict) and any(members <= found.keys() for members in _MEMBERS)
