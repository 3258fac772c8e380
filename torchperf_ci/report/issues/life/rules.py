"""How a night decides on issues."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torchperf_ci.report.issues.causes.finding import Kind


@dataclass(frozen=True)
class Rules:
    """``night`` is tonight's ISO date, the numbers are as in ``torchperf.yml``; issues of other ``kinds`` stay."""

    night: str
    recovered_nights: int = 3
    max_per_night: int = 5
    kinds: tuple[Kind, ...] = ("culprit", "unlocated", "broken")
