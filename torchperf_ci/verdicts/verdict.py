"""What is said of a series, and of all series together, and its file, ``verdicts.json``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from torchperf_ci import json_files
from torchperf_ci.errors import VerdictsError
from torchperf_ci.series.points import Series
from torchperf_ci.stats.effect import Effect
from torchperf_ci.verdicts.evidence import Evidence, evidence_of

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

    command: str = ""
    base: str = ""
    head: str = ""
    verdicts: Sequence[Verdict] = ()
    suites: Sequence[SuiteMean] = ()
    notes: Sequence[str] = ()
    again: RepeatOptions | None = None

    @property
    def red(self) -> Sequence[Verdict]:
        """The verdicts that make the command exit with 1."""
        return [verdict for verdict in self.verdicts if verdict.is_red]


VERSION = 1
SIZE_LIMIT = 64 * 2**20
"""Bytes of a file that is read; 10,000 series with their evidence take less than 10 MiB."""

VERDICTS_FORMAT = json_files.JsonFormat(
    Path(__file__).with_name("verdicts.schema.json"), VERSION, VerdictsError
)


def write_verdicts(path: Path, judgement: Judgement) -> None:
    """Write ``judgement`` to ``path``, whole or not at all, and make the directories that it lacks.

    Raises :class:`VerdictsError` where the directory cannot be made, :class:`OutputDirectoryError` for the file.
    """
    VERDICTS_FORMAT.write(path, verdicts_json(judgement))


def verdicts_json(judgement: Judgement) -> str:
    """The whole file: JSON with one verdict a line. A number that is not finite becomes null."""
    members = {"version": VERSION, **vars(judgement)}
    verdicts = [
        {**vars(verdict), "evidence": verdict.evidence.members} for verdict in members.pop("verdicts")
    ]
    return json_files.json_text({**members, "verdicts": verdicts})  # the longest comes last


def read_verdicts(path: Path) -> Judgement:
    """Read and check a file. Raises :class:`VerdictsError`, which says where in the file and what is wrong."""
    members = VERDICTS_FORMAT.read(path, SIZE_LIMIT)
    verdicts = [_verdict(item) for item in members["verdicts"]]
    return replace(json_files.typed({**members, "verdicts": []}, Judgement), verdicts=verdicts)


def _verdict(item: Mapping[str, Any]) -> Verdict:
    """Evidence has members that nobody knows beforehand, and what is none is passed over."""
    verdict = json_files.typed({**item, "evidence": {}}, Verdict)
    return replace(verdict, evidence=evidence_of(item.get("evidence", {})))
