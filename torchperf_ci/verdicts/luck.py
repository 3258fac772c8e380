"""What a verdict says of luck of builds: of wheels, say, which differ although their code does not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torchperf_ci.verdicts.verdict import Verdict

EVIDENCE = "luck"
"""The member of a verdict's evidence."""
LUCKY = 0.01
"""What luck makes more often than that is not ruled out."""


@dataclass(frozen=True)
class BuildLuck:
    """``tau``, the standard deviation of builds of one code, between ``low`` and ``high`` (95%), and the ``chance``
    that luck alone makes as much as the verdict tells of."""

    tau: float
    low: float
    high: float
    chance: float

    @property
    def is_enough(self) -> bool:
        """Whether luck could make it."""
        return self.chance > LUCKY

    def __str__(self) -> str:
        said = "a build's luck could make it" if self.is_enough else "more than a build's luck makes"
        return f"{said} (wheels differ by {self.tau:.1%} by luck, {self.low:.1%} to {self.high:.1%})"


def luck_of(verdict: Verdict) -> BuildLuck | None:
    """None where it says nothing of it. The file of verdicts may come from anywhere: only shares are believed."""
    told = verdict.evidence.get(EVIDENCE)
    if not isinstance(told, Mapping):
        return None
    found = [told.get(name) for name in ("tau", "low", "high", "chance")]
    shares = [one for one in found if isinstance(one, float) and 0 <= one <= 1]
    return BuildLuck(*shares) if len(shares) == len(found) else None
