"""What moved inside a culprit: profiles of its two builds, taken when all timing is done, and how to look further.

The lines are for a clone of the repository, with the Python active that the bisection was given.
"""

from __future__ import annotations

import re
import shlex
import shutil
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Generic, TypeVar

from torchperf_ci.bench.pairs import on_same_cpus
from torchperf_ci.bench.profiles import TABLE, TRACES, compare_profiles, keep_profile_files, take_profile
from torchperf_ci.bench.worker_client import WorkerFailure
from torchperf_ci.bisect.probes import WorkloadProbe
from torchperf_ci.bisect.reasoning.evidence import ProfiledStep
from torchperf_ci.culprits.culprit import OperatorCost, ProfileChange
from torchperf_ci.culprits.culprit_text import short_sha
from torchperf_ci.environments.revisions import Revision
from torchperf_ci.errors import TorchperfError
from torchperf_ci.git import without_secrets
from torchperf_ci.verdicts.reproduction import portable_options

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from torchperf_ci.bench.case import Case, Settings
    from torchperf_ci.bench.profiles import Cost, Profile, ProfileChanges, ProfileRow
    from torchperf_ci.bisect.bisect_progress import BisectProgress
    from torchperf_ci.bisect.commits import BuildSequence
    from torchperf_ci.bisect.measurement_setup import BisectLimits, MeasurementSetup
    from torchperf_ci.bisect.reasoning.evidence import SuspectRange
    from torchperf_ci.bisect.state_file import StateFile
    from torchperf_ci.environments.cache import EnvironmentCache
    from torchperf_ci.environments.wheels import Nightly
    from torchperf_ci.options.building_commands import BisectOptions


SYSTEMS, COMPUTE = "nsys", "ncu"
LAUNCHES = 10
"""Of the kernel that are looked at: each is run some forty times, to read all counters."""
PYTHON = "python"
SHORT_SHA = 10
"""Digits of a commit in the names of folders and reports."""


def nsight_commands(
    builds: Sequence[Revision | Nightly],
    case: Case,
    kernel: str,
    settings: Settings,
    options: BisectOptions,
) -> tuple[str, ...]:
    """Lines for a shell that make the builds again and profile the case on each, with the tools that are here.

    Nsight Compute looks at the ``kernel`` that moved most, where one did. Nothing where the device is not theirs.
    """
    wanted = (SYSTEMS, COMPUTE) if kernel else (SYSTEMS,)
    tools = [tool for tool in wanted if shutil.which(tool)]
    if settings.device != "cuda" or not tools:
        return ()
    run = _run(case, settings, options)
    profiled = [
        f"{_python_path(build, options)}{_profiler(tool, kernel, _short_name(build))} {run} "
        f"--python {_python(build, options)} --out {_place(build)}-records"
        for tool in tools
        for build in builds
    ]
    return (*(_rebuild(build, options) for build in builds), *profiled)


def _profiler(tool: str, kernel: str, report: str) -> str:
    """The options are those of ``nsys profile`` and of ``ncu``, which both follow the processes of a command."""
    if tool == SYSTEMS:
        return f"nsys profile --trace=cuda,nvtx,osrt --force-overwrite=true --output={report}"
    return (
        f"ncu --target-processes=all --kernel-name=regex:{_function(kernel)} --launch-count={LAUNCHES} --set=full "
        f"--force-overwrite --export={report}"
    )


def _run(case: Case, settings: Settings, options: BisectOptions) -> str:
    """The case as ``torchperf run`` measures it, in one process and briefly."""
    words = portable_options({**vars(options), "suite": options.suite or ["all"]}, ("suite",)).words
    chosen = [
        *words[words.index("--suite") :],
        "--filter",
        case.workload,
        "--mode",
        case.mode,
        "--dtype",
        case.dtype,
    ]
    how = ["--backend", case.backend, "--batch-size", str(case.batch_size), "--device", settings.device]
    brief = ["--threads", str(settings.threads), "--processes", "1", "--budget", "1"]
    return shlex.join(["torchperf", "run", *chosen, *how, *brief])


def _rebuild(build: Revision | Nightly, options: BisectOptions) -> str:
    place = _place(build)
    environment = f"{PYTHON} -m venv {place}-env"
    if options.wheels:
        return (
            f"{environment} && {place}-env/bin/pip install {_wheel(build, without_secrets(options.wheels))}"
        )
    assert isinstance(build, Revision)
    worktree = f"git worktree add --detach {place} {build.sha}"
    if not options.build:
        return worktree
    command = re.sub(r"\{(sha|worktree|env)\}", lambda found: f'"${found[1].upper()}"', options.build)
    variables = f"export SHA={build.sha} WORKTREE={place} ENV={place}-env"
    build_it = f'cd "$WORKTREE" && . "$ENV"/bin/activate && sh -c {shlex.quote(without_secrets(command))}'
    return f"{worktree} && {environment} && ({variables}; {build_it})"


def _wheel(build: Revision | Nightly, wheels: str) -> str:
    """What pip is asked for: a nightly, what a pattern names, or what bears the commit in its name."""
    if not isinstance(build, Revision):
        option = "--index-url" if "://" in wheels else "--find-links"
        return f"{option} {shlex.quote(wheels)} {shlex.quote(str(build))}"
    digits = build.sha[:7]
    named = wheels.replace("{sha}", build.sha).replace("{short_sha}", digits)
    return shlex.quote(named) if named != wheels else f"{shlex.quote(wheels)}/*{digits}*.whl"


def _python(build: Revision | Nightly, options: BisectOptions) -> str:
    if options.wheels or options.build:
        return f"{_place(build)}-env/bin/python"
    return PYTHON


def _python_path(build: Revision | Nightly, options: BisectOptions) -> str:
    """Where the files of a commit that is not built are imported from."""
    place = _place(build)
    return "" if options.wheels or options.build else f"PYTHONPATH={place}/src:{place} "


def _place(build: Revision | Nightly) -> str:
    """Below the folder that the lines are pasted in, for a shell."""
    return f'"$PWD"/torchperf-{_short_name(build)}'


def _short_name(build: Revision | Nightly) -> str:
    return build.sha[:SHORT_SHA] if isinstance(build, Revision) else re.sub(r"[^\w.+-]", "-", build.version)


def _function(kernel: str) -> str:
    """The name by which Nsight Compute knows a kernel: without its type, namespaces, template's and other arguments."""
    name = re.split(r"[<(]", kernel.removeprefix("void "))[0].strip()
    return re.sub(r"\W", ".", name.rpartition("::")[2])


Source = TypeVar("Source", bound="Revision | Nightly")

MOST_ROWS = 50
"""Rows in ``culprits.json``; the attached table has all of them."""
_OLD_NEW_NEW_OLD = (0, 1, 1, 0)
"""Two profiles of each build tell how much they differ by themselves; in this order a drift moves neither side."""


@dataclass(frozen=True)
class CulpritProfiles:
    """What was seen inside culprits, by their steps, and of which others it is not known, and why."""

    inside: Mapping[SuspectRange, ProfileChange] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class CulpritProfiler(Generic[Source]):
    """Looks into culprits of a ``sequence``, and attaches what it sees in a folder beside the file ``--out``.

    Compilers' caches and logs lie below ``scratch``.
    """

    sequence: BuildSequence[Source]
    environments: EnvironmentCache[Source]
    setup: MeasurementSetup
    options: BisectOptions
    limits: BisectLimits
    scratch: Path
    progress: BisectProgress

    def profile(self, culprits: Mapping[SuspectRange, str], state: StateFile) -> CulpritProfiles:
        """Look into each step, by the name of the probe that shows it best, unless ``state`` has it already.

        What cannot be profiled is told, and spoils nothing. Nobody profiles a command.
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
                inside[step] = self._attached(seen, step, probe)
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
        """A profile of a build, if there is time left to take it."""
        deadline = self.limits.deadline
        if deadline is not None and not deadline.left:
            status = "timeout"
            raise WorkerFailure(status, "the limit of --deadline left no time for them")
        environment = self.environments.get(self.sequence.sources[position])
        settings = replace(settings, python=environment.python, path=environment.path)
        return take_profile(case, settings, self.scratch / f"inside-{position}", trace)

    def _attached(self, inside: ProfileChange, step: SuspectRange, probe: WorkloadProbe) -> ProfileChange:
        """With the files that are there: an earlier job may have taken the profiles, and not left them to this one."""
        folder = self._folder(step)
        files = [name for name in (TABLE, *TRACES) if (folder / name).is_file()]
        paths = tuple(f"{folder.parent.name}/{folder.name}/{name}" for name in files)
        builds = (self.sequence.sources[step.before], self.sequence.sources[step.after])
        kernel = next((one.name for one in inside.moved if one.kind == "kernel" and one.new_count), "")
        by_hand = nsight_commands(builds, probe.case, kernel, self.setup.settings, self.options)
        return replace(inside, files=paths, commands=(*_commands_to_open(paths), *by_hand))

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
    """Lines for a shell in the folder of ``culprits.json``; what is for a browser is a comment."""
    tables = [path for path in paths if path.endswith(TABLE)]
    traces = [path for path in paths if path not in tables]
    return [
        *(f"column -t -s \"$(printf '\\t')\" {path} | less -S" for path in tables),
        *([f"# open in https://ui.perfetto.dev, a tab each: {' '.join(traces)}"] if traces else []),
    ]


def _file_name(name: str) -> str:
    """As the name of a file, in a path that needs no quotes."""
    return re.sub(r"[^A-Za-z0-9_.+-]+", "-", name).lstrip(".") or "-"
