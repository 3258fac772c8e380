"""What is said of a series, and of all series together."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, get_args

from torchperf_ci.verdicts.evidence import Evidence

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torchperf_ci.series.points import Series
    from torchperf_ci.stats.effect import Effect


VerdictWord = Literal[
    "regressed", "broken", "improved", "fixed", "noisy", "not-comparable", "missing", "new", "unchanged"
]
VERDICT_WORDS: tuple[VerdictWord, ...] = get_args(VerdictWord)
"""Those that people want to see first come first."""
RED_WORDS: tuple[VerdictWord, ...] = ("regressed", "broken")
"""What makes a command exit with 1."""


@dataclass(frozen=True)
class Verdict:
    """One series judged. ``old`` and ``new`` are in the metric's unit; the rest are shares of the old value.

    ``noise`` is the standard deviation between runs, ``detectable`` the smallest change that would have been seen.
    ``candidate`` says that the series looks worse, and that there is no proof yet.
    """

    series: Series
    verdict: VerdictWord
    why: str
    effect: Effect | None = None
    old: float | None = None
    new: float | None = None
    noise: float | None = None
    detectable: float | None = None
    candidate: bool = False
    evidence: Evidence = field(default_factory=Evidence)

    @property
    def is_red(self) -> bool:
        """Whether it makes the command exit with 1."""
        return self.verdict in RED_WORDS


@dataclass(frozen=True)
class SuiteMean:
    """The geometric mean over the series of one metric, new over old."""

    metric: str
    effect: Effect
    series: int


@dataclass(frozen=True)
class RepeatOptions:
    """How somebody else measures the same again, in a clone of the repository.

    ``base`` and ``head`` are what ``compare`` takes, empty where verdicts name the commits themselves. ``options`` are
    the other words of the command line, without those that choose a series, and without any path of the machine that
    measured. ``folder`` is where in the clone they hold, ``torch`` the version that the Python under test had, where
    that is not part of what is built.
    """

    base: str = ""
    head: str = ""
    options: tuple[str, ...] = ()
    folder: str = ""
    torch: str = ""


@dataclass(frozen=True)
class Judgement:
    """A whole ``verdicts.json``.

    ``command`` is the verb that judged (``check``, ``compare``); empty where somebody else's tool did and does not say.
    ``base`` and ``head`` say in words what was set against what. ``notes`` are what a reader must know beside: records
    refused, a control that failed, a budget that ended. ``again`` is None where nobody else can measure it.
    """

    command: str
    base: str
    head: str
    verdicts: Sequence[Verdict]
    suites: Sequence[SuiteMean] = ()
    notes: Sequence[str] = ()
    again: RepeatOptions | None = None

    @property
    def red(self) -> Sequence[Verdict]:
        """The verdicts that make the command exit with 1."""
        return [verdict for verdict in self.verdicts if verdict.is_red]
