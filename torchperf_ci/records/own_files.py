"""Files that torchperf's commands hand to each other, and that may lie among records."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torchperf_ci.records.reading import Reading

_MEMBERS = ("baselines", "costs", "culprits", "verdicts")
"""One of them is in each of these files, beside its ``version``, and none in a record."""


def is_own_file(reading: Reading) -> bool:
    """Whether a file is verdicts, culprits, costs or a baseline, which no reader of records takes for bad ones."""
    if reading.records or len(reading.refused) != 1:
        return False
    try:
        found = json.loads(reading.refused[0].text)
    except (ValueError, RecursionError):
        return False
    return isinstance(found, dict) and "version" in found and any(name in found for name in _MEMBERS)
