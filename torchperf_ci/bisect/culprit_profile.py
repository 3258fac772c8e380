"""What changed inside a culprit: profiles of its two builds, taken after all timing, and commands to look further.

The commands are for a clone of the repository in which the Python given to the bisection is active.
"""

from __future__ import annotations

import re
import shlex
import shutil
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from torchperf_ci.bench.pairs import on_same_cpus
from torchperf_ci.bench.profiles import TABLE, TRACES, compare_profiles, save_profile_files, take_profile
from torchperf_ci.bench.worker_client import WorkerFailure
from torchperf_ci.bisect.probes import WorkloadProbe
from torchperf_ci.bisect.reasoning.evidence import ProfiledStep, SuspectRange
from torchperf_ci.culprits.culprit import OperatorCost, ProfileChange
from torchperf_ci.culprits.culprit_text import short_sha
from torchperf_ci.environments.revisions import Revision, top_of_checkout
from torchperf_ci.errors import TorchperfError
from torchperf_ci.masking import without_secrets
from torchperf_ci.metrics import COMPILE_TIMES
from torchperf_ci.verdicts.reproduction import portable_options

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from torchperf_ci.bench.case import Case, Settings
    from torchperf_ci.bench.profiles import Cost, Profile, ProfileRow
    from torchperf_ci.bisect.bisect_progress import BisectProgress
    from torchperf_ci.bisect.commits import BuildSequence, BuildSource
    from torchperf_ci.bisect.measurement_setup import BisectLimits, MeasurementSetup
    from torchperf_ci.bisect.state_file import StateFile
    from torchperf_ci.environments.cache import EnvironmentCache
    from torchperf_ci.options.comparison_commands import BisectOptions


SYSTEMS, COMPUTE = "nsys", "ncu"
LAUNCHES = 10
"""How many launches of the kernel are profiled; each is replayed some forty times to read all counters."""
PYTHON = "python"
SHORT_SHA = 10
"""Digits of the commit's SHA in the names of folders and reports."""


def nsight_commands(
    builds: Sequence[BuildSource],
    case: Case,
    kernel: str,
    settings: Settings,
    options: BisectOptions,
) -> tuple[str, ...]:
    """Shell commands that make both builds again and profile the case on each, with the Nsight tools installed here.

    Nsight Compute profiles the ``kernel`` that changed most, if there is one. Empty if the device is not CUDA.
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
    """The command line of ``nsys profile`` or ``ncu``; both follow child processes."""
    if tool == SYSTEMS:
        return f"nsys profile --trace=cuda,nvtx,osrt --force-overwrite=true --output={report}"
    return (
        f"ncu --target-processes=all --kernel-name=regex:{_function(kernel)} --launch-count={LAUNCHES} --set=full "
        f"--force-overwrite --export={report}"
    )


def _run(case: Case, settings: Settings, options: BisectOptions) -> str:
    """The ``torchperf run`` command that measures the case briefly, in one process."""
    searched = options.suite or ["all", *settings.files]
    words = portable_options({**vars(options), "suite": searched}, ("suite",)).words
    suite = words[words.index("--suite") :]
    chosen = [*suite, "--filter", case.workload, "--mode", case.mode, "--dtype", case.dtype]
    how = ["--backend", case.backend, "--batch-size", str(case.batch_size), "--device", settings.device]
    brief = ["--threads", str(settings.threads), "--processes", "1", "--budget", "1"]
    return shlex.join(["torchperf", "run", *chosen, *how, *brief])


def _rebuild(build: BuildSource, options: BisectOptions) -> str:
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
    top = top_of_checkout(build.repo)
    has_submodules = top and (top / ".gitmodules").is_file()
    submodules = f" && git -C {place} submodule update --init --recursive" if has_submodules else ""
    command = re.sub(r"\{(sha|worktree|env|seed)\}", lambda found: f'"${found[1].upper()}"', options.build)
    variables = f"export SHA={build.sha} WORKTREE={place} ENV={place}-env SEED=0"
    build_it = f'cd "$WORKTREE" && . "$ENV"/bin/activate && sh -c {shlex.quote(without_secrets(command))}'
    return f"{worktree}{submodules} && {environment} && ({variables}; {build_it})"


def _wheel(build: BuildSource, wheels: str) -> str:
    """The arguments for ``pip install``: a nightly, the wheel that a pattern names, or one named after the commit."""
    if not isinstance(build, Revision):
        option = "--index-url" if "://" in wheels else "--find-links"
        return f"{option} {shlex.quote(wheels)} {shlex.quote(str(build))}"
    digits = build.sha[:7]
    named = wheels.replace("{sha}", build.sha).replace("{short_sha}", digits)
    return shlex.quote(named) if named != wheels else f"{shlex.quote(wheels)}/*{digits}*.whl"


def _python(build: BuildSource, options: BisectOptions) -> str:
    if options.wheels or options.build:
        return f"{_place(build)}-env/bin/python"
    return PYTHON


def _python_path(build: BuildSource, options: BisectOptions) -> str:
    """The assignment of ``PYTHONPATH`` for a commit that is imported without being built; empty for other builds."""
    place = _place(build)
    return "" if options.wheels or options.build else f"PYTHONPATH={place}/src:{place} "


def _place(build: BuildSource) -> str:
    """The build's folder, as a shell word relative to the current folder."""
    return f'"$PWD"/torchperf-{_short_name(build)}'


def _short_name(build: BuildSource) -> str:
    return build.sha[:SHORT_SHA] if isinstance(build, Revision) else re.sub(r"[^\w.+-]", "-", build.version)


def _function(kernel: str) -> str:
    """The name of a kernel in Nsight Compute: without return type, namespaces, template arguments and parameters."""
    name = re.split(r"[<(]", kernel.removeprefix("void "))[0].strip()
    return re.sub(r"\W", ".", name.rpartition("::")[2])


MAX_ROWS = 50
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

        A profile that fails becomes a note and does not affect the result. Commands are not profiled, nor is compiling.
        """
        inside, notes = {}, []
        probes = {probe.name: probe for probe in self.setup.probes}
        for step, name in culprits.items():
            probe = probes[name]
            if not isinstance(probe, WorkloadProbe) or {*probe.metrics} <= {*COMPILE_TIMES}:
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
        positions = (step.before, step.after)
        if positions in state.profiles:
            return
        settings, _ = on_same_cpus(self.setup.settings, self.setup.settings)
        self.progress.begin_profile(*positions)
        profiles: tuple[list[Profile], list[Profile]] = ([], [])
        for side in _OLD_NEW_NEW_OLD:
            trace = None if profiles[side] else self.scratch / TRACES[side]
            profiles[side].append(self._take(probe.case, positions[side], settings, trace))
        changes = compare_profiles(*profiles)
        moved = tuple(map(_operator, changes.moved[:MAX_ROWS]))
        inside = ProfileChange(probe.name, moved, changes.graph_breaks[:MAX_ROWS])
        state.add(ProfiledStep(*positions, inside))
        save_profile_files(self._folder(step), changes, {name: self.scratch / name for name in TRACES})

    def _take(self, case: Case, position: int, settings: Settings, trace: Path | None) -> Profile:
        """Profile a build; raises :class:`WorkerFailure` if the deadline has passed."""
        if self.limits.is_late:
            raise WorkerFailure("timeout", "the limit of --deadline left no time for them")
        environment = self.environments.get(self.sequence.sources[position])
        settings = replace(settings, python=environment.python, path=environment.path)
        return take_profile(case, settings, self.scratch / f"inside-{position}", trace)

    def _attached(self, inside: ProfileChange, step: SuspectRange, probe: WorkloadProbe) -> ProfileChange:
        """Add the commands and the profile files that exist here; those of an earlier job may not."""
        folder = self._folder(step)
        files = [name for name in (TABLE, *TRACES) if (folder / name).is_file()]
        paths = tuple(f"{folder.parent.name}/{folder.name}/{name}" for name in files)
        builds = (self.sequence.sources[step.before], self.sequence.sources[step.after])
        kernel = next((op.name for op in inside.moved if op.kind == "kernel" and op.new_count), "")
        by_hand = nsight_commands(builds, probe.case, kernel, self.setup.settings, self.options)
        return replace(inside, files=paths, commands=(*_commands_to_open(paths), *by_hand))

    def _folder(self, step: SuspectRange) -> Path:
        out = Path(self.options.out)
        return out.with_name(f"{_file_name(out.stem)}.profiles") / _file_name(
            short_sha(self.sequence.ids[step.after])
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
