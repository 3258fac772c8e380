"""Search one range of builds: open its environments and state file, then measure until nothing more can be learned."""

from __future__ import annotations

import hashlib
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import replace
from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING

from torchperf_ci.actions import in_actions
from torchperf_ci.bisect.bisect_progress import BisectProgress, show_plan
from torchperf_ci.bisect.conclusion import SearchResult, clearest_probes
from torchperf_ci.bisect.culprit_profile import CulpritProfiler
from torchperf_ci.bisect.laboratory import GOOD, Laboratory, attempt_build, with_batch_size
from torchperf_ci.bisect.measurement_setup import BUILD_SECONDS, BisectLimits, MeasurementSetup, builder_kind
from torchperf_ci.bisect.probes import CommandProbe, WorkloadProbe
from torchperf_ci.bisect.reasoning.evidence import TRIES, BisectFacts, BisectNote, BisectQuestion
from torchperf_ci.bisect.reasoning.investigation import Investigation
from torchperf_ci.bisect.state_file import RetriedFailures, StateFile
from torchperf_ci.console import say
from torchperf_ci.document import counted, first_and_last
from torchperf_ci.environments.cache import EnvironmentCache
from torchperf_ci.environments.revisions import top_of_checkout, uncompiled_note
from torchperf_ci.errors import EnvironmentUnderTestError, ResumeError, TorchperfError, WorkloadsFailedError
from torchperf_ci.interruption import Stopped
from torchperf_ci.json_files import OtherPlanError
from torchperf_ci.machine.interference import busy_warning, read_counters
from torchperf_ci.masking import without_secrets
from torchperf_ci.scratch import scratch_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from torchperf_ci.bisect.commits import BuildSequence, BuildSource
    from torchperf_ci.bisect.reasoning.evidence import BuildAttempt, PlannedPair
    from torchperf_ci.environments.build_environment import BuildEnvironment
    from torchperf_ci.options.comparison_commands import BisectOptions


def investigate(
    question: BisectQuestion,
    laboratory: Laboratory,
    state: StateFile,
    limits: BisectLimits,
    progress: BisectProgress,
) -> str:
    """Measure until nothing more can be learned or a limit is reached; return the option of that limit, or ``""``.

    Raises :class:`EnvironmentUnderTestError` if the good or the bad commit fails to build :data:`TRIES`
    times.
    """
    while (step := (known := Investigation(question, state.facts)).next_step()) is not None:
        if limit := limits.ended_by(state.facts):
            return limit
        if not limits.may_build(state.facts, _unbuilt(step, state.facts)):
            step = known.next_step(may_build=False)
        if step is None or not limits.may_build(state.facts, _unbuilt(step, state.facts)):
            return "--max-builds"
        if _are_built(step, question, laboratory, state, limits, progress):
            progress.begin_pair(step)
            outcome = laboratory.measure(step)
            state.add(outcome)
            progress.end(outcome, state.facts)
    return ""


def _unbuilt(step: PlannedPair, facts: BisectFacts) -> int:
    """The number of builds, of the two of ``step``, that still have to be made."""
    return len({*_builds(step)} - facts.made)


def _builds(step: PlannedPair) -> tuple[tuple[int, int], ...]:
    """The position and the draw of the base build, and those of the head build."""
    return tuple(zip((step.base, step.head), step.draws, strict=True))


def _are_built(
    step: PlannedPair,
    question: BisectQuestion,
    laboratory: Laboratory,
    state: StateFile,
    limits: BisectLimits,
    progress: BisectProgress,
) -> bool:
    for position, draw in _builds(step):
        if (position, draw) in state.facts.made:
            if not laboratory.holds(position, draw):
                progress.begin_build(position, draw)
            continue
        if limits.is_late:  # since the first of the two was begun
            return False
        progress.begin_build(position, draw)
        build = laboratory.build(position, draw)
        state.add(build)
        progress.end(build, state.facts)
        if not build.ok:
            ends = {0, question.bad} & state.facts.unbuilt
            if position in ends and state.facts.tries[position] >= TRIES:
                raise _end_fails(build)
            if not limits.is_late:  # else the next call tries these again
                _check_builds(laboratory, state, progress)
        if not build.ok or build.repeated:
            return False
    return True


def _check_builds(laboratory: Laboratory, state: StateFile, progress: BisectProgress) -> None:
    """After :data:`TRIES` failures in a row, build good again: if that fails as well, no commit is to blame."""
    failed = [*takewhile(lambda build: not build.ok, reversed(state.facts.builds))]
    if len(failed) < TRIES:
        return
    progress.begin_build(GOOD)
    try:
        good = laboratory.build_good_anew()
    except EnvironmentUnderTestError:
        state.add(RetriedFailures(tuple(sorted({build.position for build in failed}))))
        raise
    if good:
        state.add(good)
        progress.end(good, state.facts)


SAME_BUILDS = (
    "unless --build makes an editable install, it installed the same for good and bad, byte for byte: nothing that it "
    "installs has changed, or it installs what an earlier build left behind, or something else than the commit's files"
)

BUILT_ONLY = (
    "⚠ this call has measured nothing: its time ended while it made builds, which are not kept. If that happens again, "
    "it never gets any further: give it more time (--deadline; a night's bisect-budget), or its builds a compiler cache"
)

_OPTIONS_OF_PLAN = (
    "command",
    "metric",
    "build",
    "wheels",
    "paths",
    "mode",
    "dtype",
    "backend",
    "batch_size",
    "threads",
)


def search(
    sequence: BuildSequence,
    opened: Callable[..., AbstractContextManager[BuildEnvironment]],
    resolve: Callable[[Callable[[], BuildEnvironment]], MeasurementSetup],
    options: BisectOptions,
    path: Path,
    limits: BisectLimits,
) -> SearchResult:
    """Search a sequence of builds.

    ``opened`` opens the environment of a build. ``resolve`` decides what to measure, given a function that builds good,
    which a command does not need. Every step is written to the state file at ``path``, which :class:`Stopped` names.
    """
    show_plan(sequence, options, limits)
    before = read_counters()
    environments: EnvironmentCache[BuildSource]
    with EnvironmentCache(opened) as environments, scratch_folder() as folder:
        attempts: list[BuildAttempt] = []
        build_good = partial(_build_good, sequence.sources[GOOD], environments, attempts, limits)
        setup = resolve(build_good)
        uncompiled = _uncompiled(sequence, options)
        say(*filter(None, [uncompiled, busy_warning(before)]))
        with _open_state(path, _state_plan(sequence, setup, options)) as state_file:
            if not limits.ended_by(state_file.facts):
                state_file.retry_failures()
            setup = _with_batch_sizes(setup, sequence, state_file, folder)
            question = _question(sequence, setup, options)
            begun = Investigation(question, state_file.facts)
            is_new = not begun.facts.readings and begun.next_step() is not None
            if is_new:
                build_good()
            for attempt in attempts if GOOD not in state_file.facts.built else ():
                state_file.add(attempt)
            laboratory = Laboratory(sequence.sources, environments, setup, folder, limits)
            if is_new:
                laboratory.try_good()
            with closing(BisectProgress(question, sequence.labels)) as progress:
                try:
                    ended_by = investigate(question, laboratory, state_file, limits, progress)
                finally:  # also after an interruption: the call that resumes the search reports these notes
                    for remark in laboratory.remarks:
                        state_file.add(BisectNote(remark))
                known = Investigation(question, state_file.facts)
                profiler = CulpritProfiler(sequence, environments, setup, options, limits, folder, progress)
                profiles = profiler.profile(clearest_probes(known), state_file)
            good, bad = (known.facts.contents.get(end) for end in (GOOD, question.bad))
            stale = SAME_BUILDS if good and good == bad and options.build and not known.regressed else ""
            is_stuck = ended_by == "--deadline" and known.facts.readings == begun.facts.readings
            notes = (*filter(None, [uncompiled, stale, BUILT_ONLY if is_stuck else ""]), *state_file.notes)
            return SearchResult(sequence, known, ended_by, setup, profiles, notes)


def _uncompiled(sequence: BuildSequence, options: BisectOptions) -> str:
    """A note on extensions that nothing compiles, or nothing; a command may compile them."""
    is_imported = builder_kind(options) == "worktree" and not options.command
    return uncompiled_note(sequence.sources[0], sequence.sources[-1]) if is_imported else ""


def _build_good(
    good: BuildSource,
    environments: EnvironmentCache[BuildSource],
    tried: list[BuildAttempt],
    limits: BisectLimits,
) -> BuildEnvironment:
    """The environment of the good commit; if it has to be built first, the attempts that it took are added.

    After the deadline there is no further one: each may take hours.
    """
    if not tried:
        say(f"building {good}")
    while not tried or not tried[-1].ok:
        if len(tried) == TRIES or (tried and limits.is_late):
            raise _end_fails(tried[-1])
        tried.append(attempt_build(partial(environments.get, good), GOOD))
    return environments.get(good)


def _end_fails(build: BuildAttempt) -> EnvironmentUnderTestError:
    which = "good" if build.position == GOOD else "bad"
    return EnvironmentUnderTestError(
        f"the {which} commit cannot be built, so there is nothing to compare with: {build.why}"
    )


@contextmanager
def _open_state(path: Path, plan: Mapping[str, object]) -> Iterator[StateFile]:
    """Open the state file, and delete it if the call fails before it measured anything.

    The user can then correct the call and repeat it with the same file.
    """
    with _opened_state(path, plan) as state_file:
        if state_file.anew:
            say(f"warning: {state_file.anew}")
            state_file.add(BisectNote(state_file.anew))
        elif pairs := state_file.facts.readings:
            measured = counted(len(pairs), "pair")
            say(f"continuing with {measured} of earlier calls, in {state_file.path}; delete it to start anew")
        try:
            yield state_file
        except Stopped as stopped:
            stopped.outcome = f"everything measured so far is in {state_file.path}; to continue"
            raise
        except TorchperfError:
            if not state_file.facts.readings:
                state_file.path.unlink(missing_ok=True)
            raise


def _opened_state(path: Path, plan: Mapping[str, object]) -> StateFile:
    """The state file of a plan. In a job, it is replaced if it is of another, as nobody can delete it from the cache.

    A runner's label may give several kinds of machine in turn: each has a file of its own, next to that of the first.
    """
    try:
        return StateFile.open(path, plan)
    except ResumeError as error:
        if not in_actions():
            raise
        if isinstance(error, OtherPlanError) and "machine" in error.changed:
            machine = hashlib.sha256(f"{plan['machine']}".encode()).hexdigest()
            path = path.with_name(f"{path.name}.{machine[:16]}")
    return StateFile.open(path, plan, forget_others=True)


def _with_batch_sizes(
    setup: MeasurementSetup, sequence: BuildSequence, state_file: StateFile, folder: Path
) -> MeasurementSetup:
    """The setup with batch sizes; workloads for which the good build finds none are left out, if others remain."""
    probes, failures = [], []
    for probe in setup.probes:
        try:
            probes.append(with_batch_size(probe, setup.settings, sequence.labels[GOOD], state_file, folder))
        except WorkloadsFailedError as error:
            failures.append(error)
    if not probes:
        raise failures[0]
    left_out = (first_and_last(str(error)) for error in failures)
    return replace(setup, probes=tuple(probes), notes=(*setup.notes, *left_out))


def _question(sequence: BuildSequence, setup: MeasurementSetup, options: BisectOptions) -> BisectQuestion:
    names = [probe.name for probe in setup.probes]
    builder = builder_kind(options)
    # A worktree is imported without a build, so build luck varies from process to process and not by commit.
    luck = 0.0 if builder == "worktree" else setup.luck
    return BisectQuestion(
        sequence.weights,
        names,
        options.min_effect or 0.0,
        build_seconds=BUILD_SECONDS[builder],
        reverts=sequence.reverts,
        luck=luck,
        rebuilds=builder == "command",
    )


def _state_plan(
    sequence: BuildSequence, setup: MeasurementSetup, options: BisectOptions
) -> Mapping[str, object]:
    """What must be unchanged to resume: the range, the measurements, the environment, and the kind of machine."""
    identity = setup.settings.hardware.identity()
    asked = {name: vars(options)[name] for name in _OPTIONS_OF_PLAN if vars(options)[name] not in (None, ())}
    # Also those that suites of the configuration name.
    files = () if options.command else setup.settings.files
    if suites := (*options.suite, *(file for file in files if file.endswith(".py"))):
        top = top_of_checkout(Path(options.repo))
        asked["suite"] = [*dict.fromkeys(_suite_in(top, suite) for suite in suites)]
    for probe in setup.probes:
        if isinstance(probe, CommandProbe) and probe.configured:
            asked["directions"] = probe.configured
    if setup.versions:
        asked["packages"] = setup.versions
    if builder_kind(options) == "nightly":
        asked["nightlies"] = [*sequence.ids]
    if options.verdicts:
        asked["metrics"] = [[*probe.metrics] for probe in setup.probes if isinstance(probe, WorkloadProbe)]
    return {
        "good": sequence.ids[0],
        "bad": sequence.ids[-1],
        "suspects": len(sequence.ids) - 1,
        "probes": [probe.name for probe in setup.probes],
        "builder": builder_kind(options),
        "min_effect": options.min_effect,
        "machine": f"{identity.name} ({identity.type})",
        # Without secrets, because the file is passed from job to job.
        **{name: without_secrets(text) if isinstance(text, str) else text for name, text in asked.items()},
    }


def _suite_in(top: Path | None, suite: str) -> str:
    """The name of a suite; of a file its digest, too, and its path below the checkout ``top``, which may move."""
    file = Path(suite).resolve()
    if not suite.endswith(".py"):
        return suite
    name = file.relative_to(top).as_posix() if top and file.is_relative_to(top) else file.name
    return f"{name} {hashlib.sha256(file.read_bytes()).hexdigest()[:8]}"
