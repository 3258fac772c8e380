"""What moved inside a culprit: profiles of its two builds, taken when all timing is done."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Generic, TypeVar

from torchperf_ci.bench.client import WorkerFailure
from torchperf_ci.bench.pairs import on_same_cpus
from torchperf_ci.bench.profile_changes import compare
from torchperf_ci.bench.profile_files import TABLE, TRACES, keep
from torchperf_ci.bench.profiles import take
from torchperf_ci.bisect.measuring.nsight import nsight_commands
from torchperf_ci.bisect.measuring.probes import WorkloadProbe
from torchperf_ci.bisect.reasoning.facts import Look
from torchperf_ci.culprits.culprit import Inside, Operator
from torchperf_ci.culprits.file import inside_of
from torchperf_ci.culprits.words import sha
from torchperf_ci.errors import TorchperfError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from torchperf_ci.bench.case import Case, Settings
    from torchperf_ci.bench.profile_changes import Changes, Row
    from torchperf_ci.bench.profiles import Cost, Profile
    from torchperf_ci.bisect.limits import Limits
    from torchperf_ci.bisect.line.line import Line
    from torchperf_ci.bisect.reasoning.segment import Segment
    from torchperf_ci.bisect.setting import Setting
    from torchperf_ci.bisect.state import State as StateFile
    from torchperf_ci.bisect.telling.progress import Progress
    from torchperf_ci.environments.cache import Environments
    from torchperf_ci.environments.nightlies import Nightly
    from torchperf_ci.environments.repository import Revision
    from torchperf_ci.options import BisectOptions

Source = TypeVar("Source", bound="Revision | Nightly")

MOST_TOLD = 50
"""Rows in ``culprits.json``; the attached table has all of them."""
_OLD_NEW_NEW_OLD = (0, 1, 1, 0)
"""Two profiles of each build tell how much they differ by themselves; in this order a drift moves neither side."""


@dataclass(frozen=True)
class Looks:
    """What was seen inside culprits, by their steps, and of which others it is not known, and why."""

    inside: Mapping[Segment, Inside] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Inspector(Generic[Source]):
    """Looks into culprits of ``line``, and attaches what it sees in a folder beside the file ``--out``.

    Compilers' caches and logs lie below ``scratch``.
    """

    line: Line[Source]
    environments: Environments[Source]
    setting: Setting
    options: BisectOptions
    limits: Limits
    scratch: Path
    shown: Progress

    def look(self, culprits: Mapping[Segment, str], kept: StateFile) -> Looks:
        """Look into each step, by the name of the probe that shows it best, unless what was seen is ``kept`` already.

        What cannot be profiled is told, and spoils nothing. Nobody profiles a command.
        """
        inside, notes = {}, []
        probes = {probe.name: probe for probe in self.setting.probes}
        for step, name in culprits.items():
            probe = probes[name]
            if not isinstance(probe, WorkloadProbe):
                continue
            try:
                self._profile(step, probe, kept)
            except (WorkerFailure, TorchperfError, OSError) as error:
                why = str(error).partition("\n")[0]
                notes.append(f"profiles of {self.line.words[step.after]}: {why}")
            if seen := kept.looks.get((step.before, step.after)):
                inside[step] = self._attached(inside_of(seen), step, probe)
        return Looks(inside, tuple(notes))

    def _profile(self, step: Segment, probe: WorkloadProbe, kept: StateFile) -> None:
        if (step.before, step.after) in kept.looks:
            return
        settings, _ = on_same_cpus(self.setting.settings, self.setting.settings)
        positions = (step.before, step.after)
        self.shown.looks_inside(*positions)
        profiles: tuple[list[Profile], list[Profile]] = ([], [])
        for side in _OLD_NEW_NEW_OLD:
            trace = None if profiles[side] else self.scratch / TRACES[side]
            profiles[side].append(self._taken(probe.case, positions[side], settings, trace))
        changes = compare(*profiles)
        kept.add(Look(*positions, asdict(_told(probe.name, changes))))
        keep(self._folder(step), changes, {name: self.scratch / name for name in TRACES})

    def _taken(self, case: Case, position: int, settings: Settings, trace: Path | None) -> Profile:
        """A profile of a build, if there is time left to take it."""
        deadline = self.limits.deadline
        if deadline is not None and not deadline.left:
            status = "timeout"
            raise WorkerFailure(status, "the limit of --deadline left no time for them")
        environment = self.environments.get(self.line.states[position])
        settings = replace(settings, python=environment.python, path=environment.path)
        return take(case, settings, self.scratch / f"inside-{position}", trace)

    def _attached(self, inside: Inside, step: Segment, probe: WorkloadProbe) -> Inside:
        """With the files that are there: an earlier job may have taken the profiles, and not left them to this one."""
        folder = self._folder(step)
        files = [name for name in (TABLE, *TRACES) if (folder / name).is_file()]
        paths = tuple(f"{folder.parent.name}/{folder.name}/{name}" for name in files)
        builds = (self.line.states[step.before], self.line.states[step.after])
        kernel = next((one.name for one in inside.moved if one.kind == "kernel" and one.new_count), "")
        by_hand = nsight_commands(builds, probe.case, kernel, self.setting.settings, self.options)
        return replace(inside, files=paths, commands=(*_to_open(paths), *by_hand))

    def _folder(self, step: Segment) -> Path:
        out = Path(self.options.out or "")
        return out.with_name(f"{_safe(out.stem)}.profiles") / _safe(sha(self.line.names[step.after]))


def _told(probe: str, changes: Changes) -> Inside:
    return Inside(probe, tuple(map(_operator, changes.moved[:MOST_TOLD])), changes.graph_breaks[:MOST_TOLD])


def _operator(row: Row) -> Operator:
    def numbers(cost: Cost | None) -> tuple[float | None, float | None]:
        return (round(cost.ms, 6), round(cost.count, 3)) if cost else (None, None)

    (old_ms, old_count), (new_ms, new_count) = numbers(row.old), numbers(row.new)
    return Operator(row.key.name, row.key.kind, old_ms, new_ms, old_count, new_count)


def _to_open(paths: Sequence[str]) -> list[str]:
    """Lines for a shell in the folder of ``culprits.json``; what is for a browser is a comment."""
    tables = [path for path in paths if path.endswith(TABLE)]
    traces = [path for path in paths if path not in tables]
    return [
        *(f"column -t -s \"$(printf '\\t')\" {path} | less -S" for path in tables),
        *([f"# open in https://ui.perfetto.dev, a tab each: {' '.join(traces)}"] if traces else []),
    ]


def _safe(name: str) -> str:
    """As the name of a file, in a path that needs no quotes."""
    return re.sub(r"[^A-Za-z0-9_.+-]+", "-", name).lstrip(".") or "-"
