"""What is said of a series, and of all series together; and what the evidence of a verdict tells.

The evidence may come from anywhere: only what has the form of a commit, or of a time, is taken from it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from torchperf_ci.series.points import Series
    from torchperf_ci.stats.effect import Effect


_COMMIT_HASH = re.compile(r"[0-9a-f]{7,64}")
_REPOSITORIES = (attrgetter("commit"), attrgetter("torch"))


@dataclass(frozen=True)
class MeasuredCommit:
    """What was measured: a ``commit`` of the repository whose job did, with one of PyTorch; empty where nobody says.

    ``timestamp`` are Unix seconds, 0 where nobody says.
    """

    commit: str = ""
    torch: str = ""
    timestamp: float = field(default=0.0, compare=False)

    @property
    def name(self) -> str:
        """The commit that tells it from others."""
        return self.commit or self.torch


class CommitEnds(NamedTuple):
    """The last commit at the old level and the first at the new."""

    good: str
    bad: str


@dataclass(frozen=True)
class CommitRange:
    """Between which points something changed."""

    last_old: MeasuredCommit
    first_new: MeasuredCommit

    @property
    def range(self) -> CommitEnds | None:
        """The first of :func:`commit_ends_of`; None where no repository has any."""
        return next(iter(commit_ends_of([self])), None)

    @property
    def own(self) -> CommitEnds | None:
        """That of the repository whose job measured; None where nobody knows two different ends."""
        good, bad = self.last_old.commit, self.first_new.commit
        return CommitEnds(good, bad) if good and bad and good != bad else None


def commit_range_of(verdict: Verdict) -> CommitRange:
    """What the evidence of a verdict says."""
    return CommitRange(_point(verdict.evidence.get("last_old")), _point(verdict.evidence.get("first_new")))


def commit_ends_of(turns: Sequence[CommitRange]) -> tuple[CommitEnds, ...]:
    """Between which commits all of it happened: of the repository whose job measured, and then of PyTorch.

    A repository of which no two different ends are known has none.
    """
    return tuple(dict.fromkeys(_ends_by_repository(turns)))


def _ends_by_repository(turns: Sequence[CommitRange]) -> Iterator[CommitEnds]:
    for commit in _REPOSITORIES:
        good = [turn.last_old for turn in turns if commit(turn.last_old)]
        bad = [turn.first_new for turn in turns if commit(turn.first_new)]
        if good and bad:
            first = min(good, key=lambda point: point.timestamp or inf)
            last = max(bad, key=lambda point: point.timestamp)
            if commit(first) != commit(last):
                yield CommitEnds(commit(first), commit(last))


def _point(evidence: Any) -> MeasuredCommit:
    if not isinstance(evidence, Mapping):
        return MeasuredCommit()
    return MeasuredCommit(
        _commit(evidence.get("commit")), _commit(evidence.get("torch")), _time(evidence.get("timestamp"))
    )


def _commit(value: Any) -> str:
    return value if isinstance(value, str) and _COMMIT_HASH.fullmatch(value) else ""


def _time(value: Any) -> float:
    is_time = isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < inf
    return float(value) if is_time else 0.0


LUCK_EVIDENCE = "luck"
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
    told = verdict.evidence.get(LUCK_EVIDENCE)
    if not isinstance(told, Mapping):
        return None
    found = [told.get(name) for name in ("tau", "low", "high", "chance")]
    shares = [one for one in found if isinstance(one, float) and 0 <= one <= 1]
    return BuildLuck(*shares) if len(shares) == len(found) else None


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
    ``candidate`` says that the series looks worse, and that there is no proof yet. ``evidence`` is what the verdict
    rests on, as JSON: numbers of points, the tail probability, the last commit at the old level, the first at the new.
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
    evidence: Mapping[str, Any] = field(default_factory=dict)

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
