"""The data classes of ``verdicts.json``, the judgement of each series and of all series together, and its I/O."""

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
    control, an exhausted budget. ``again`` is None if others cannot repeat the measurement.
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
"""Maximum size in bytes of a file that is read; 10,000 series with their evidence take less than 10 MiB."""

VERDICTS_FORMAT = json_files.JsonFormat(
    Path(__file__).with_name("verdicts.schema.json"), VERSION, VerdictsError
)


def write_verdicts(path: Path, judgement: Judgement) -> None:
    """Write ``judgement`` to ``path`` atomically, and create missing directories.

    Raises :class:`VerdictsError` if a directory cannot be created, :class:`OutputDirectoryError` for the file.
    """
    VERDICTS_FORMAT.write(path, verdicts_json(judgement))


def verdicts_json(judgement: Judgement) -> str:
    """The contents of the file: JSON with one line per verdict. Numbers that are not finite become null."""
    members = {"version": VERSION, **vars(judgement)}
    verdicts = [
        {**vars(verdict), "evidence": verdict.evidence.members} for verdict in members.pop("verdicts")
    ]
    return json_files.json_text({**members, "verdicts": verdicts})  # the longest member last


def read_verdicts(path: Path) -> Judgement:
    """Read and validate a file. Raises :class:`VerdictsError`, which says where in the file and what is wrong."""
    members = VERDICTS_FORMAT.read(path, SIZE_LIMIT)
    verdicts = [_verdict(item) for item in members["verdicts"]]
    return replace(json_files.typed({**members, "verdicts": []}, Judgement), verdicts=verdicts)


def _verdict(item: Mapping[str, Any]) -> Verdict:
    """Parse a verdict. Its evidence may have members unknown here; invalid evidence is ignored."""
    verdict = json_files.typed({**item, "evidence": {}}, Verdict)
    return replace(verdict, evidence=evidence_of(item.get("evidence", {})))
