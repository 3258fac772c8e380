"""Which commits made something slower, how that is known, and its file, ``culprits.json``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from torchperf_ci import json_files
from torchperf_ci.errors import CulpritsError
from torchperf_ci.stats.effect import Effect

BisectionStatus = Literal["found", "not-reproduced", "environment", "build", "inconclusive"]
OperatorKind = Literal["operator", "kernel", "phase"]


@dataclass(frozen=True)
class SeriesEffect:
    """What a culprit did to one series: new over old in the metric's own direction, and what that rests on.

    ``log_ratios`` holds ln(new/old) of each pair of measurements, and ``effect`` follows from them alone.
    """

    name: str
    effect: Effect | None = None
    log_ratios: tuple[float, ...] = ()


@dataclass(frozen=True)
class DependencyChange:
    """A dependency that came with another version, or was not there before (``old`` is empty), or went."""

    name: str
    old: str
    new: str


@dataclass(frozen=True)
class OperatorCost:
    """What one operator, kernel or phase of a step takes: its own ms a step and calls a step; None where it is not."""

    name: str
    kind: OperatorKind
    old_ms: float | None = None
    new_ms: float | None = None
    old_count: float | None = None
    new_count: float | None = None


@dataclass(frozen=True)
class ProfileChange:
    """What moved inside a step of ``probe``, by profiles of the culprit and of what was before it.

    ``moved`` are those that changed by more than profiles of one build differ by, the largest change of time first,
    then those that are only called more or less often. ``graph_breaks`` are the reasons of those that are new.
    ``files`` are paths relative to ``culprits.json``, ``commands`` shell lines that look further.
    """

    probe: str
    moved: tuple[OperatorCost, ...] = ()
    graph_breaks: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()


@dataclass(frozen=True)
class Culprit:
    """A proven step between two neighbours: one commit, or a ``set`` of which none but the last could be measured.

    ``commit`` is None where the set has several. ``posterior`` is how sure it is, between 0 and 1. ``effect`` is that
    of the series which shows it best. ``author``, ``date`` (ISO 8601), ``subject`` and ``pull_request`` are the
    commit's, and ``url`` is where it can be looked at. ``moved`` are the dependencies that changed at the same step.
    ``inside`` is what profiles of both sides showed, where they were taken. ``builds`` counts the builds of what was
    before it and of its own that it was proven on; None where nothing is built, or nobody says.
    """

    commit: str | None
    set: tuple[str, ...]
    posterior: float
    effect: Effect
    series: tuple[SeriesEffect, ...] = ()
    author: str = ""
    date: str = ""
    subject: str = ""
    pull_request: int | None = None
    url: str | None = None
    moved: tuple[DependencyChange, ...] = ()
    inside: ProfileChange | None = None
    builds: tuple[int, int] | None = None


@dataclass(frozen=True)
class Suspect:
    """A commit that may have done it, and how likely that is."""

    commit: str
    posterior: float
    subject: str = ""


@dataclass(frozen=True)
class SkippedCommit:
    """A commit that could not be measured."""

    commit: str
    why: str


@dataclass(frozen=True)
class PairMeasurement:
    """One pair of builds measured in turn: ln(head/base) of each series, here always positive where head is worse.

    ``base`` and ``head`` are commits, ``purpose`` is ``confirm``, ``locate``, ``verify`` or ``control``, ``seconds``
    what it took. ``draws`` says which builds of the two it was taken of: 0 is the first, k the k-th made anew.
    """

    probe: str
    base: str
    head: str
    purpose: str
    log_ratios: Mapping[str, float]
    seconds: float = 0.0
    draws: tuple[int, int] = (0, 0)


@dataclass(frozen=True)
class MachineTime:
    """Seconds that a machine spent."""

    measuring: float = 0.0
    building: float = 0.0


@dataclass(frozen=True)
class BuildSpread:
    """What luck makes of a build: ``spread``, the standard deviation of ln(time) among builds of one and the same code.

    ``source`` says whence that is known: ``rebuilds`` that were made here, ``history``, or what is ``expected`` of any.
    """

    spread: float
    source: str


@dataclass(frozen=True)
class Bisection:
    """A whole ``culprits.json``: what a bisection between the commits ``good`` and ``bad`` came to.

    ``why`` is one sentence: for ``inconclusive`` what it would take to conclude, for ``not-reproduced`` what was seen
    and which effect would have been. ``credible`` is what is left of the suspects where no one commit could be proven,
    ``confirmed`` the effect of ``bad`` against ``good`` by series, ``moved`` what changed beside the code.

    ``repo`` is the repository's URL, without credentials, ``machine`` the machine in words, and ``notes`` are what a
    reader must know beside. ``command`` is the command line that repeats all of this in a clone of the repository, in
    its ``folder``, with the version ``torch`` in the Python that is active, where that is not part of what is built.
    ``luck`` is what builds differ by although nothing has changed; None where nothing is built, or nobody says.
    """

    status: BisectionStatus
    good: str
    bad: str
    why: str = ""
    repo: str = ""
    machine: str = ""
    command: str = ""
    folder: str = ""
    torch: str = ""
    runs: int = 0
    builds: int = 0
    seconds: MachineTime = MachineTime()
    confirmed: Mapping[str, Effect] = field(default_factory=dict)
    culprits: tuple[Culprit, ...] = ()
    credible: tuple[Suspect, ...] = ()
    skipped: tuple[SkippedCommit, ...] = ()
    moved: tuple[DependencyChange, ...] = ()
    notes: tuple[str, ...] = ()
    luck: BuildSpread | None = None
    readings: tuple[PairMeasurement, ...] = ()


VERSION = 1
SIZE_LIMIT = 64 * 2**20
"""Bytes of a file that is read; 1,000 measurements of 100 series take less than 10 MiB."""

QUOTE_LENGTH = 200
"""Characters of a message that quotes what is in a file."""

CULPRITS_FORMAT = json_files.JsonFormat(
    Path(__file__).with_name("culprits.schema.json"), VERSION, CulpritsError
)


def write_culprits(path: Path, location: Bisection) -> None:
    """Write ``location`` to ``path``, whole or not at all, and make the directories that it lacks.

    Raises :class:`CulpritsError` where the directory cannot be made, :class:`OutputDirectoryError` for the file.
    """
    CULPRITS_FORMAT.write(path, culprits_json(location))


def culprits_json(location: Bisection) -> str:
    """The whole file: JSON with one culprit, one suspect, one measurement a line."""
    return json_files.json_text({"version": VERSION, **vars(location)})


def read_culprits(path: Path) -> Bisection:
    """Read and check a file. Raises :class:`CulpritsError`, which says where in the file and what is wrong."""
    return _bisection(CULPRITS_FORMAT.read(path, SIZE_LIMIT))


def parse_culprits(name: str, text: str) -> Bisection:
    """The same of the text of a file called ``name``."""
    return _bisection(CULPRITS_FORMAT.parse(name, text.encode()))


def _bisection(members: Any) -> Bisection:
    culprits = tuple(_culprit(item) for item in members["culprits"])
    return replace(json_files.typed({**members, "culprits": []}, Bisection), culprits=culprits)


def _culprit(item: Mapping[str, Any]) -> Culprit:
    """Somebody else's tool may know no more of a series than its name."""
    series = [{"name": one} if isinstance(one, str) else one for one in item["series"]]
    return replace(json_files.typed({**item, "commit": "", "series": series}, Culprit), commit=item["commit"])


def check_profile_change(item: Mapping[str, Any]) -> None:
    """Raise :class:`ValueError` where such an object does not fit the schema of the file, and say how."""
    from jsonschema import Draft202012Validator

    part = Draft202012Validator({"$ref": "#/$defs/inside", "$defs": CULPRITS_FORMAT.schema["$defs"]})
    for error in part.iter_errors(item):
        msg = f"{error.json_path}: {error.message}"[:QUOTE_LENGTH]
        raise ValueError(msg)
