"""What changed inside a culprit: profiles of its two builds, taken after all timing, and commands that open them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from torchperf_ci.bench.pairs import on_same_cpus
from torchperf_ci.bench.profiles import TABLE, TRACES, compare_profiles, keep_profile_files, take_profile
from torchperf_ci.bench.worker_client import WorkerFailure
from torchperf_ci.bisect.probes import WorkloadProbe
from torchperf_ci.bisect.reasoning.evidence import ProfiledStep, SuspectRange
from torchperf_ci.culprits.culprit import OperatorCost, ProfileChange
from torchperf_ci.culprits.culprit_text import short_sha
from torchperf_ci.errors import TorchperfError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from torchperf_ci.bench.case import Case, Settings
    from torchperf_ci.bench.profiles import Cost, Profile, ProfileChanges, ProfileRow
    from torchperf_ci.bisect.bisect_progress import BisectProgress
    from torchperf_ci.bisect.commits import BuildSequence, BuildSource
    from torchperf_ci.bisect.measurement_setup import BisectLimits, MeasurementSetup
    from torchperf_ci.bisect.state_file import StateFile
    from torchperf_ci.environments.cache import EnvironmentCache
    from torchperf_ci.options.comparison_commands import BisectOptions


MOST_ROWS = 50
"""Maximum number of rows in ``culprits.json``; the attached table has all of them."""
_OLD_NEW_NEW_OLD = (0, 1, 1, 0)
"""The order of the profiles: two of each build show how much one build varies, and drift cancels in this order."""


@dataclass(frozen=True)
class CulpritProfiles:
    """What profiles of the culprits have shown, by step, and notes on those that could not be profiled."""

    inside: Mapping[SuspectRange, ProfileChange] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class CulpritProfiler:
    """Profiles the culprits of a ``sequence`` and keeps the profile files in a folder next to the file ``--out``.

    Compiler caches and logs go below ``scratch``.
    """

    sequence: BuildSequence
    environments: EnvironmentCache[BuildSource]
    setup: MeasurementSetup
    options: BisectOptions
    limits: BisectLimits
    scratch: Path
    progress: BisectProgress

    def profile(self, culprits: Mapping[SuspectRange, str], state: StateFile) -> CulpritProfiles:
        """Profile each step, given with its clearest probe's name, unless ``state`` already has the profile.

        A profile that fails becomes a note and does not affect the result. Commands are not profiled.
        """
        inside, notes = {}, []
        probes = {probe.name: probe for probe in self.setup.probes}
        for step, name in culprits.items():
            probe = probes[name]
            if not isinstance(probe, WorkloadProbe):
                continue
            try:
                self._profile(step, probe, state)
            except (WorkerFailure, TorchperfError, OSError) as error:
                why = str(error).partition("\n")[0]
                notes.append(f"profiles of {self.sequence.labels[step.after]}: {why}")
            if seen := state.profiles.get((step.before, step.after)):
                inside[step] = self._attached(seen, step)
        return CulpritProfiles(inside, tuple(notes))

    def _profile(self, step: SuspectRange, probe: WorkloadProbe, state: StateFile) -> None:
        if (step.before, step.after) in state.profiles:
            return
        settings, _ = on_same_cpus(self.setup.settings, self.setup.settings)
        positions = (step.before, step.after)
        self.progress.profiles(*positions)
        profiles: tuple[list[Profile], list[Profile]] = ([], [])
        for side in _OLD_NEW_NEW_OLD:
            trace = None if profiles[side] else self.scratch / TRACES[side]
            profiles[side].append(self._taken(probe.case, positions[side], settings, trace))
        changes = compare_profiles(*profiles)
        state.add(ProfiledStep(*positions, _profile_of(probe.name, changes)))
        keep_profile_files(self._folder(step), changes, {name: self.scratch / name for name in TRACES})

    def _taken(self, case: Case, position: int, settings: Settings, trace: Path | None) -> Profile:
        """Profile a build; raises :class:`WorkerFailure` if the deadline has passed."""
        deadline = self.limits.deadline
        if deadline is not None and not deadline.left:
            status = "timeout"
            raise WorkerFailure(status, "the limit of --deadline left no time for them")
        environment = self.environments.get(self.sequence.sources[position])
        settings = replace(settings, python=environment.python, path=environment.path)
        return take_profile(case, settings, self.scratch / f"inside-{position}", trace)

    def _attached(self, inside: ProfileChange, step: SuspectRange) -> ProfileChange:
        """Add the files that exist here, as those of an earlier job may not, and the commands that open them."""
        folder = self._folder(step)
        files = [name for name in (TABLE, *TRACES) if (folder / name).is_file()]
        paths = tuple(f"{folder.parent.name}/{folder.name}/{name}" for name in files)
        return replace(inside, files=paths, commands=tuple(_commands_to_open(paths)))

    def _folder(self, step: SuspectRange) -> Path:
        out = Path(self.options.out)
        return out.with_name(f"{_file_name(out.stem)}.profiles") / _file_name(
            short_sha(self.sequence.ids[step.after])
        )


def _profile_of(probe: str, changes: ProfileChanges) -> ProfileChange:
    return ProfileChange(
        probe, tuple(map(_operator, changes.moved[:MOST_ROWS])), changes.graph_breaks[:MOST_ROWS]
    )


def _operator(row: ProfileRow) -> OperatorCost:
    def numbers(cost: Cost | None) -> tuple[float | None, float | None]:
        return (round(cost.ms, 6), round(cost.count, 3)) if cost else (None, None)

    (old_ms, old_count), (new_ms, new_count) = numbers(row.old), numbers(row.new)
    return OperatorCost(row.key.name, row.key.kind, old_ms, new_ms, old_count, new_count)


def _commands_to_open(paths: Sequence[str]) -> list[str]:
    """Shell commands that open the files, run from the folder of ``culprits.json``; a comment for a browser's files."""
    tables = [path for path in paths if path.endswith(TABLE)]
    traces = [path for path in paths if path not in tables]
    return [
        *(f"column -t -s \"$(printf '\\t')\" {path} | less -S" for path in tables),
        *([f"# open in https://ui.perfetto.dev, a tab each: {' '.join(traces)}"] if traces else []),
    ]


def _file_name(name: str) -> str:
    """Turn the name into a file name that needs no quoting in a shell."""
    return re.sub(r"[^A-Za-z0-9_.+-]+", "-", name).lstrip(".") or "-"
