"""What an issue is about, as a name that is the same every night."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torchperf_ci.report.issues.causes.finding import Kind

LENGTH = 16
"""Hexadecimal digits: two of a million causes share a name once in ten million projects."""


def fingerprint(kind: Kind, *parts: str) -> str:
    """16 hexadecimal digits that are equal for the same cause, and hardly for another one."""
    named = "\0".join((kind, *parts)).encode("utf-8", "replace")
    return hashlib.sha256(named).hexdigest()[:LENGTH]
