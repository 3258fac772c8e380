"""What one night found that an issue is about."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, log
from typing import TYPE_CHECKING, Literal, get_args

if TYPE_CHECKING:
    from torchperf_ci.culprits.culprit import Culprit, Location
    from torchperf_ci.series.series import Series
    from torchperf_ci.stats.effect import Effect
    from torchperf_ci.verdicts.verdict import Again, Verdict

Kind = Literal["culprit", "unlocated", "broken", "digest", "nightly"]
"""A proven commit; a regression without one; a benchmark that fails night after night; what found no room, in issues
that an earlier version has opened; a nightly that did not run."""
KINDS: tuple[Kind, ...] = get_args(Kind)
NAMED_KINDS: tuple[Kind, ...] = ("broken", "nightly")
"""Those that an issue is found by the fingerprint of alone, whatever series it has."""


@dataclass(frozen=True)
class Row:
    """One series of an issue. ``old`` and ``new`` are levels in the metric's unit, ``effect`` is new over old.

    ``night`` (ISO date) is the last one on which it was seen so. ``proven`` says that the effect is that of pairs of
    the culprit and its parent; else it is what history shows.
    """

    series: Series
    old: float | None = None
    new: float | None = None
    effect: Effect | None = None
    night: str = ""
    proven: bool = False

    @property
    def size(self) -> float:
        """How much changed: the absolute logarithm of the ratio; 0 where there is none."""
        ratio = self.effect.ratio if self.effect else 1.0
        return abs(log(ratio)) if 0 < ratio < inf else inf


@dataclass(frozen=True)
class Finding:
    """What one issue would be about. ``fingerprint`` is of the cause, never of the run that found it.

    ``why`` says in one sentence why no commit is named, or what is broken. ``again`` is how its series are measured
    again, where the file of their verdicts says so, and ``warnings`` are what was wrong while they were measured.
    ``title`` and ``text`` are what the issue says, where that is not told from the rest.
    """

    kind: Kind
    fingerprint: str
    rows: tuple[Row, ...]
    verdicts: tuple[Verdict, ...] = ()
    culprit: Culprit | None = None
    location: Location | None = None
    why: str = ""
    again: Again | None = None
    warnings: tuple[str, ...] = ()
    title: str = ""
    text: str = ""
