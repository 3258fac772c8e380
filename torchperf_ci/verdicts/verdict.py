"""The data classes of ``verdicts.json``, the judgement of each series with its evidence, and its I/O.

A verdicts file is untrusted input. Its evidence is parsed here once, and only values with the form of a commit, a time
or a number are kept.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from operator import attrgetter
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeGuard

from torchperf_ci import json_files
from torchperf_ci.series.points import Series
from torchperf_ci.stats.effect import Effect

COMMIT_HASH = re.compile(r"[0-9a-f]{7,64}")
DIGEST = re.compile(r"[0-9a-f]{10}")
_REPOSITORIES = (attrgetter("commit"), attrgetter("torch"))
MAX_NUMBER = 1e15
"""Larger numbers are ignored, because they cannot be drawn."""
MIN_CHANCE = 0.01
"""If luck alone explains a change with more than this probability, luck is not ruled out."""


@dataclass(frozen=True)
class RangeEnd:
    """What was measured: a ``commit`` of the repository whose job ran, and the commit of PyTorch; empty if unknown.

    ``timestamp`` is in Unix seconds, 0 if unknown.
    """

    commit: str = ""
    torch: str = ""
    timestamp: float = field(default=0, compare=False)

    @property
    def name(self) -> str:
        """The commit that identifies this end."""
        return self.commit or self.torch


class CommitEnds(NamedTuple):
    """The last commit at the old level and the first at the new."""

    good: str
    bad: str


@dataclass(frozen=True)
class CommitRange:
    """The last point at the old level and the first point at the new level."""

    last_old: RangeEnd = RangeEnd()
    first_new: RangeEnd = RangeEnd()

    @property
    def range(self) -> CommitEnds | None:
        """The first range of :func:`commit_ends_of`; None if there is none."""
        return next(iter(commit_ends_of([self])), None)

    @property
    def is_one_commit(self) -> bool:
        """Whether both levels are known to be of the same commits, so that none of them is the cause."""
        return bool(self.last_old.name) and self.last_old == self.first_new

    @property
    def in_measuring_repository(self) -> CommitEnds | None:
        """The range in the repository whose job measured; None unless two different ends are known."""
        good, bad = self.last_old.commit, self.first_new.commit
        return CommitEnds(good, bad) if good and bad and good != bad else None


@dataclass(frozen=True)
class MeasuredPoint:
    """The value that one run measured, its commit, and its time (Unix seconds, 0 if unknown)."""

    value: float
    commit: str = ""
    timestamp: float = 0


@dataclass(frozen=True)
class BuildVariance:
    """How much builds of the same code differ, and whether that explains a verdict.

    ``tau`` is the standard deviation between builds, with its 95% interval from ``low`` to ``high``. ``chance`` is
    the probability that luck alone makes as large a change as the verdict reports.
    """

    tau: float
    low: float
    high: float
    chance: float

    @property
    def explains_change(self) -> bool:
        """Whether luck alone could explain the change."""
        return self.chance > MIN_CHANCE

    def __str__(self) -> str:
        text = "build luck could explain it" if self.explains_change else "more than build luck explains"
        return f"{text} (wheels differ by {self.tau:.1%} by luck, {self.low:.1%} to {self.high:.1%})"


@dataclass(frozen=True)
class Evidence:
    """The evidence of a verdict.

    ``commits`` are those between which it changed, ``points`` those of a chart, oldest first. ``failing`` is the
    number of runs in a row that failed, up to this one, ``batch_size`` and ``threads`` are how it was measured, and
    ``luck`` is the spread of builds. ``machine`` is a digest of the machine's facts, equal for those whose numbers can
    be compared; empty if unknown. ``too_few_runs`` are comparable, so that the noise is unknown. ``others`` are members
    of the file that only people and other programs use.
    """

    commits: CommitRange = CommitRange()
    points: Sequence[MeasuredPoint] = ()
    failing: int = 0
    batch_size: int | None = None
    threads: int | None = None
    luck: BuildVariance | None = None
    machine: str = ""
    too_few_runs: bool = False
    others: Mapping[str, object] = field(default_factory=dict)

    @property
    def members(self) -> Mapping[str, object]:
        """The members as in a file, without those that are unknown."""
        ends = {name: _known(getattr(self.commits, name)) for name in _ENDS}
        known = {**ends, **{name: getattr(self, name) for name in _MEMBERS}}
        return {**self.others, **{name: value for name, value in known.items() if value}}


_ENDS = ("last_old", "first_new")
_MEMBERS = ("batch_size", "threads", "failing", "points", "luck", "machine", "too_few_runs")


def evidence_of(members: Mapping[str, Any]) -> Evidence:
    """Parse the evidence of a verdict in a file, and ignore invalid values."""
    points = members.get("points")
    return Evidence(
        CommitRange(*(_measured_commit(members.get(name)) for name in _ENDS)),
        tuple(
            MeasuredPoint(point["value"], _text(point.get("commit")), _time(point.get("timestamp")))
            for point in (points if isinstance(points, list | tuple) else ())
            if isinstance(point, Mapping) and _is_number(point.get("value"))
        ),
        _count(members.get("failing")) or 0,
        _count(members.get("batch_size")),
        _count(members.get("threads")),
        _build_variance(members.get("luck")),
        machine if isinstance(machine := members.get("machine"), str) and DIGEST.fullmatch(machine) else "",
        members.get("too_few_runs") is True,
        {name: value for name, value in members.items() if name not in (*_ENDS, *_MEMBERS)},
    )


def measured_commit(commit: object, torch: object, timestamp: object) -> RangeEnd:
    """A range end from untrusted values; those without the form of a commit or a time are ignored."""
    return RangeEnd(_commit(commit), _commit(torch), _time(timestamp))


def commit_ends_of(ranges: Sequence[CommitRange]) -> tuple[CommitEnds, ...]:
    """The commit range that contains all ``ranges``, for the repository whose job measured and then for PyTorch.

    A repository without two different known ends is left out.
    """
    return tuple(dict.fromkeys(_ends_by_repository(ranges)))


def _ends_by_repository(ranges: Sequence[CommitRange]) -> Iterator[CommitEnds]:
    for commit in _REPOSITORIES:
        good = [commit_range.last_old for commit_range in ranges if commit(commit_range.last_old)]
        bad = [commit_range.first_new for commit_range in ranges if commit(commit_range.first_new)]
        if good and bad:
            first = min(good, key=lambda point: point.timestamp or inf)
            last = max(bad, key=lambda point: point.timestamp)
            if commit(first) != commit(last):
                yield CommitEnds(commit(first), commit(last))


def _known(measured: RangeEnd) -> Mapping[str, object]:
    return {name: value for name, value in vars(measured).items() if value}


def _measured_commit(members: Any) -> RangeEnd:
    known = members if isinstance(members, Mapping) else {}
    return measured_commit(known.get("commit"), known.get("torch"), known.get("timestamp"))


def _build_variance(members: Any) -> BuildVariance | None:
    """Parse the spread of builds; None unless all its numbers are between 0 and 1."""
    if not isinstance(members, Mapping):
        return None
    numbers = [members.get(name) for name in ("tau", "low", "high", "chance")]
    shares = [number for number in numbers if _is_number(number) and 0 <= number <= 1]
    return BuildVariance(*shares) if len(shares) == len(numbers) else None


def _commit(value: object) -> str:
    return value if isinstance(value, str) and COMMIT_HASH.fullmatch(value) else ""


def _count(value: object) -> int | None:
    return value if _is_number(value) and isinstance(value, int) and value > 0 else None


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _time(value: object) -> float:
    return value if _is_number(value) and value > 0 else 0


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < MAX_NUMBER


VerdictWord = Literal[
    "regressed",
    "broken",
    "improved",
    "fixed",
    "noisy",
    "not-comparable",
    "missing",
    "new",
    "not-affected",
    "unchanged",
]
"""The possible verdicts, the most important first."""
RED_WORDS: tuple[VerdictWord, ...] = ("regressed", "broken")
"""The verdicts that make a command exit with 1."""


@dataclass(frozen=True)
class Verdict:
    """The verdict on one series. ``old`` and ``new`` are in the metric's unit; the rest are shares of the old value.

    ``noise`` is the standard deviation between runs, ``detectable`` the smallest change that would have been
    detected. ``candidate`` means that the series looks worse, but that this is not proven yet.
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
        """Whether the verdict makes the command exit with 1."""
        return self.verdict in RED_WORDS

    @property
    def size(self) -> float:
        """The size of the change, 0 without an effect."""
        return self.effect.size if self.effect else 0.0

    @property
    def difference(self) -> float:
        """New minus old, in the metric's unit; 0 if a level is unknown, or if there is an effect, which says more."""
        return 0.0 if self.effect or self.old is None or self.new is None else self.new - self.old

    @property
    def newest_level(self) -> float | None:
        """The value of the newest run; ``new`` may be a mean that includes earlier nights."""
        points = self.evidence.points
        return points[-1].value if points else self.new


@dataclass(frozen=True)
class SuiteMean:
    """The geometric mean over the series of one metric, new over old."""

    metric: str
    effect: Effect
    series: int


@dataclass(frozen=True)
class RepeatOptions:
    """How others can repeat the measurement in a clone of the repository.

    ``base`` and ``head`` are the arguments for ``compare``; empty if the verdicts name commits themselves.
    ``options`` are the other words of the command line, without those that select a series and without paths of the
    measuring machine. ``folder`` is the folder of the clone to run them in. ``torch`` is the version in the Python
    under test, unless torch is part of what is built.
    """

    base: str = ""
    head: str = ""
    options: tuple[str, ...] = ()
    folder: str = ""
    torch: str = ""


@dataclass(frozen=True)
class Judgement:
    """The contents of ``verdicts.json``.

    ``command`` is the command that judged (``check``, ``compare``), or empty if another tool did and does not say.
    ``base`` and ``head`` describe the two sides. ``notes`` are remarks for the reader: refused records, a failed
    control, an exhausted budget. ``reproduction`` is None if others cannot repeat the measurement.
    """

    command: str = ""
    base: str = ""
    head: str = ""
    verdicts: Sequence[Verdict] = ()
    suites: Sequence[SuiteMean] = ()
    notes: Sequence[str] = ()
    reproduction: RepeatOptions | None = None

    @property
    def red(self) -> Sequence[Verdict]:
        """The verdicts that make the command exit with 1."""
        return [verdict for verdict in self.verdicts if verdict.is_red]

    @property
    def worse(self) -> Sequence[Verdict]:
        """The verdicts on what got worse or may have, which a bisection confirms first."""
        return [verdict for verdict in self.verdicts if verdict.is_red or verdict.candidate]


def all_verdicts(judgements: Iterable[Judgement]) -> list[Verdict]:
    """The verdicts of several files, in their order."""
    return [verdict for judgement in judgements for verdict in judgement.verdicts]


VERSION = 1
VERDICTS_FORMAT = json_files.JsonFormat(Path(__file__).with_name("verdicts.schema.json"), VERSION)


def write_verdicts(path: Path, judgement: Judgement) -> None:
    """Write ``judgement`` atomically, creating missing directories. Raises :class:`OutputDirectoryError`."""
    json_files.write_json_file(path, verdicts_json(judgement))


def verdicts_json(judgement: Judgement) -> str:
    """The contents of the file: JSON with one line per verdict. Numbers that are not finite become null."""
    members = {"version": VERSION, **json_files.fields_of(judgement), "again": judgement.reproduction}
    del members["reproduction"]  # which is called again in the file
    verdicts = [
        {**json_files.fields_of(verdict), "evidence": verdict.evidence.members}
        for verdict in members.pop("verdicts")
    ]
    return json_files.json_text({**members, "verdicts": verdicts})  # the longest member last


def read_verdicts(path: Path) -> Judgement:
    """Read and validate a file. Raises :class:`JsonFileError`, which says where in the file and what is wrong."""
    members = VERDICTS_FORMAT.read(path)
    verdicts = [_verdict(item) for item in members["verdicts"]]
    known = {**members, "reproduction": members.get("again"), "verdicts": []}
    return replace(json_files.typed(known, Judgement), verdicts=verdicts)


def _verdict(item: Mapping[str, Any]) -> Verdict:
    """Parse a verdict. Its evidence may have members unknown here; invalid evidence is ignored."""
    verdict = json_files.typed({**item, "evidence": {}}, Verdict)
    return replace(verdict, evidence=evidence_of(item.get("evidence", {})))
