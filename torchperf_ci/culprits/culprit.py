"""The data classes of ``culprits.json``, which commits made something slower and on what evidence, and its I/O."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from torchperf_ci import json_files
from torchperf_ci.stats.effect import Effect

BisectionStatus = Literal["found", "not-reproduced", "environment", "build", "inconclusive"]
OperatorKind = Literal["operator", "kernel", "phase"]


@dataclass(frozen=True)
class SeriesEffect:
    """What a culprit did to one series: new over old in the metric's own direction, and the measurements behind it.

    ``log_ratios`` holds ln(new/old) of each pair of measurements, and ``effect`` is computed from them alone.
    """

    name: str
    effect: Effect | None = None
    log_ratios: tuple[float, ...] = ()


@dataclass(frozen=True)
class DependencyChange:
    """A dependency whose version changed. ``old`` is empty if it was added, ``new`` if it was removed."""

    name: str
    old: str
    new: str


@dataclass(frozen=True)
class OperatorCost:
    """The cost of one operator, kernel or phase per step: its self time in ms and its calls; None if absent."""

    name: str
    kind: OperatorKind
    old_ms: float | None = None
    new_ms: float | None = None
    old_count: float | None = None
    new_count: float | None = None


@dataclass(frozen=True)
class ProfileChange:
    """What changed inside a step of ``probe``, from profiles of the culprit and of the build before it.

    ``moved`` are the rows that changed by more than profiles of the same build differ, the largest change of time
    first, then those whose number of calls changed. ``graph_breaks`` are the reasons of new graph breaks. ``files``
    are paths relative to ``culprits.json``, ``commands`` are shell commands to look further.
    """

    probe: str
    moved: tuple[OperatorCost, ...] = ()
    graph_breaks: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()


@dataclass(frozen=True)
class Culprit:
    """A proven step between two neighboring builds: one commit, or a ``set`` of which only the last could be measured.

    ``commit`` is None if the set has several commits. ``posterior`` is the probability of the culprit, between 0 and
    1. ``effect`` is that on the series which shows it best. ``author``, ``date`` (ISO 8601), ``subject``,
    ``pull_request`` and ``url`` describe the commit. ``moved`` are the dependencies that changed in the same step.
    ``inside`` is what profiles of both sides showed, if they were taken. ``builds`` counts the builds before it and
    of it on which it was proven; None if nothing is built, or if unknown.
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

    def repository_on(self, server: str) -> str | None:
        """The ``owner/name`` of the commit's repository; None unless ``url`` is its page on ``server``."""
        page = rf"{re.escape(server)}/([\w.-]+/[\w.-]+)/commit/([0-9a-f]+)"
        match = re.fullmatch(page, self.url or "", re.ASCII)
        return match[1] if match and match[2] == self.commit else None


@dataclass(frozen=True)
class Suspect:
    """A commit that may be the culprit, and its probability."""

    commit: str
    posterior: float
    subject: str = ""


@dataclass(frozen=True)
class SkippedCommit:
    """A commit that could not be measured, and why."""

    commit: str
    why: str


@dataclass(frozen=True)
class PairMeasurement:
    """One pair of builds measured in turn: ln(head/base) of each series, always positive where head is worse.

    ``base`` and ``head`` are commits, ``purpose`` is ``confirm``, ``locate``, ``verify`` or ``control``, and
    ``seconds`` is the duration. ``draws`` says which builds of the two commits were measured: 0 is the first, k the
    k-th rebuild.
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
    """Seconds of machine time."""

    measuring: float = 0.0
    building: float = 0.0


@dataclass(frozen=True)
class KnownBuildVariance:
    """How much builds of the same code differ by luck: ``spread`` is the standard deviation of ln(time) between them.

    ``source`` says how that is known: ``rebuilds`` made here, ``history``, or the value ``expected`` of any project.
    """

    spread: float
    source: str


@dataclass(frozen=True)
class Bisection:
    """The contents of ``culprits.json``: the result of a bisection between the commits ``good`` and ``bad``.

    ``why`` is one sentence: for ``inconclusive`` what it would take to conclude, for ``not-reproduced`` what was seen
    and which effect would have been detected. ``credible`` are the remaining suspects if no single commit could be
    proven, ``confirmed`` is the effect of ``bad`` against ``good`` by series.

    ``repo`` is the repository's URL, without credentials, ``machine`` a description of the machine, and ``notes`` are
    remarks for the reader. ``command`` is the command line that repeats the bisection in a clone of the repository,
    in its ``folder``; the active Python needs version ``torch``, unless torch is part of what is built. ``luck`` is
    how much builds of the same code differ; None if nothing is built, or if unknown.
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
    notes: tuple[str, ...] = ()
    luck: KnownBuildVariance | None = None
    readings: tuple[PairMeasurement, ...] = ()

    @property
    def kind_of_machine(self) -> re.Match[str] | None:
        """The ``arch`` and the ``device`` that ``machine`` names, as series do; None if it does not."""
        return re.fullmatch(r"(?P<arch>.*) \((?P<device>[^()]*)\)", self.machine)

    def ran_on(self, device: str, arch: str) -> bool:
        """Whether it ran on this kind of machine, of which a series may not name ``arch``; True if it names none."""
        machine = self.kind_of_machine
        return machine is None or (machine["device"] == device and arch in ("", machine["arch"]))


VERSION = 1
CULPRITS_FORMAT = json_files.JsonFormat(Path(__file__).with_name("culprits.schema.json"), VERSION)


def write_culprits(path: Path, bisection: Bisection) -> None:
    """Write ``bisection`` atomically, creating missing directories. Raises :class:`OutputDirectoryError`."""
    json_files.write_json_file(path, culprits_json(bisection))


def culprits_json(bisection: Bisection) -> str:
    """The contents of the file: JSON with one line per culprit, suspect and measurement."""
    return json_files.json_text({"version": VERSION, **json_files.fields_of(bisection)})


def read_culprits(path: Path) -> Bisection:
    """Read and validate a file. Raises :class:`JsonFileError`, which says where in the file and what is wrong."""
    return _bisection(CULPRITS_FORMAT.read(path))


def parse_culprits(name: str, text: str) -> Bisection:
    """Parse and validate the contents of a file called ``name``, like :func:`read_culprits`."""
    return _bisection(CULPRITS_FORMAT.parse(name, text.encode()))


def _bisection(members: Any) -> Bisection:
    culprits = tuple(_culprit(item) for item in members["culprits"])
    return replace(json_files.typed({**members, "culprits": []}, Bisection), culprits=culprits)


def _culprit(item: Mapping[str, Any]) -> Culprit:
    """Parse a culprit. Files from other tools may give only the names of its series."""
    series = [{"name": effect} if isinstance(effect, str) else effect for effect in item["series"]]
    return replace(json_files.typed({**item, "commit": "", "series": series}, Culprit), commit=item["commit"])
