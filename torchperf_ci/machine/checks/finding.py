"""What a check has to say."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Level = Literal["ok", "warn", "bad"]


@dataclass(frozen=True)
class Finding:
    """One aspect of the machine: what was ``found``, ``why`` it matters and what to ``do``.

    ``warn`` makes numbers noisier, ``bad`` makes them wrong or impossible.
    """

    check: str
    level: Level
    found: str
    why: str
    do: str = ""
