"""What a search and those that follow on it come to together, and what they may still spend."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from torchperf_ci.bisect.reasoning.facts import Facts

if TYPE_CHECKING:
    from torchperf_ci.bisect.limits import Limits
    from torchperf_ci.culprits.culprit import Culprit, Location


@dataclass
class Account:
    """``location`` grows, and ``left`` shrinks, with each search."""

    location: Location
    left: Limits

    @property
    def is_spent(self) -> bool:
        """Whether the limits leave room for no other search, which has two ends to build."""
        return bool(self.left.ended_by(Facts())) or not self.left.may_build(Facts(), 2)

    def take_culprits(self) -> tuple[Culprit, ...]:
        """Those that were named so far, for each to be looked into and named again."""
        culprits = self.location.culprits
        self.location = replace(self.location, culprits=())
        return culprits

    def name(self, *culprits: Culprit, note: str = "") -> None:
        """Add culprits, and what is to be known beside."""
        notes = (*self.location.notes, *([note] if note else []))
        self.location = replace(self.location, culprits=(*self.location.culprits, *culprits), notes=notes)

    def add_up(self, more: Account) -> None:
        """What a search that followed took and saw; its culprits are for the caller to judge."""
        mine, others = self.location, more.location
        seconds = replace(
            mine.seconds,
            measuring=mine.seconds.measuring + others.seconds.measuring,
            building=mine.seconds.building + others.seconds.building,
        )
        self.left = more.left
        self.location = replace(
            mine,
            runs=mine.runs + others.runs,
            builds=mine.builds + others.builds,
            seconds=seconds,
            credible=mine.credible + others.credible,
            skipped=mine.skipped + others.skipped,
            notes=mine.notes + others.notes,
            readings=mine.readings + others.readings,
        )
