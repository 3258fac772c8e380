"""One search over a range of builds: its environments, its state file, and the loop of what to measure next."""

from __future__ import annotations

from contextlib import closing, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from torchperf_ci.actions import in_actions
from torchperf_ci.bisect.bisect_progress import open_progress, show_plan
from torchperf_ci.bisect.conclusion import SearchResult, clearest_probes
from torchperf_ci.bisect.culprit_profile import CulpritProfiler
from torchperf_ci.bisect.laboratory import Laboratory, with_batch_size
from torchperf_ci.bisect.measurement_setup import BUILD_SECONDS, builder_kind
from torchperf_ci.bisect.reasoning.evidence import BisectNote, BisectQuestion, with_known_rebuilds
from torchperf_ci.bisect.reasoning.investigation import Investigation, next_step
from torchperf_ci.bisect.state_file import StateFile
from torchperf_ci.console import say
from torchperf_ci.environments.cache import EnvironmentCache
from torchperf_ci.environments.revisions import scratch_folder
from torchperf_ci.errors import EnvironmentUnderTestError, TorchperfError
from torchperf_ci.git import without_secrets
from torchperf_ci.interruption import Stopped

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from contextlib import AbstractContextManager
    from pathlib import Path

    from torchperf_ci.bisect.bisect_progress import BisectProgress
    from torchperf_ci.bisect.commits import BuildSequence
    from torchperf_ci.bisect.measurement_setup import BisectLimits, MeasurementSetup
    from torchperf_ci.bisect.reasoning.evidence import BisectFacts, PlannedPair
    from torchperf_ci.environments.build_environment import BuildEnvironment
    from torchperf_ci.environments.revisions import Revision
    from torchperf_ci.environments.wheels import Nightly
    from torchperf_ci.options import BisectOptions


def investigate(
    question: BisectQuestion,
    laboratory: Laboratory[Any],
    state: StateFile,
    limits: BisectLimits,
    shown: BisectProgress,
) -> str:
    """Go on until nothing more can be learnt, or a limit ends it; which one, if it was one.

    Raises :class:`EnvironmentUnderTestError` where good or bad cannot be built, which is tried twice.
    """
    while (
        step := next_step(question := with_known_rebuilds(question, state.facts), state.facts)
    ) is not None:
        if limit := limits.ended_by(state.facts):
            return limit
        if not limits.may_build(state.facts, _unbuilt(step, state.facts)):
            step = next_step(question, state.facts, may_build=False)
        if step is None or not limits.may_build(state.facts, _unbuilt(step, state.facts)):
            return "--max-builds"
        if _are_built(step, question, laboratory, state, shown):
            shown.measures(step)
            found = laboratory.measure(step.probe, step.base, step.head, step.purpose, step.draws)
            state.add(found)
            shown.learnt(found, state.facts)
    return ""


def _unbuilt(step: PlannedPair, facts: BisectFacts) -> int:
    """Of the two builds, how many have to be made first."""
    return len({*_builds(step)} - facts.made)


def _builds(step: PlannedPair) -> tuple[tuple[int, int], ...]:
    """Positions and draws."""
    return tuple(zip((step.base, step.head), step.draws, strict=True))


def _are_built(
    step: PlannedPair,
    question: BisectQuestion,
    laboratory: Laboratory[Any],
    state: StateFile,
    shown: BisectProgress,
) -> bool:
    for position, draw in _builds(step):
        if (position, draw) in state.facts.made:
            continue
        shown.builds(position)
        build = laboratory.build(position, draw)
        state.add(build)
        shown.learnt(build, state.facts)
        if not build.ok:
            if position in {0, question.bad} & state.facts.unusable - state.facts.unsettled:
                which = "bad" if position else "good"
                msg = f"the {which} commit cannot be built, so there is nothing to compare with: {build.why}"
                raise EnvironmentUnderTestError(msg)
            return False
    return True


Source = TypeVar("Source", bound="Revision | Nightly")

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
    line: BuildSequence[Source],
    opened: Callable[..., AbstractContextManager[BuildEnvironment]],
    resolve: Callable[[BuildEnvironment], MeasurementSetup],
    options: BisectOptions,
    state: Path,
    limits: BisectLimits,
) -> SearchResult:
    """Search a line of builds that ``opened`` makes; ``resolve`` says what to measure once the good one is there.

    ``state`` keeps each step. Where a signal ends it, :class:`Stopped` says so.
    """
    show_plan(line, options, limits)
    environments: EnvironmentCache[Source]
    with EnvironmentCache(opened) as environments, scratch_folder() as folder:
        setting = resolve(_good_environment(line, environments))
        with _open_state(state, _state_plan(line, setting, options)) as kept:
            setting = _with_batch_sizes(setting, line, kept, folder)
            question = _question(line, setting, options)
            laboratory = Laboratory(
                line.states, environments, setting.probes, setting.settings, setting.device, folder
            )
            with closing(open_progress(question, line.words)) as shown:
                try:
                    ended_by = investigate(question, laboratory, kept, limits, shown)
                finally:  # kept also where this call is interrupted, and another one concludes
                    if laboratory.disturbed:
                        kept.add(BisectNote(laboratory.disturbed))
                known = Investigation(with_known_rebuilds(question, kept.facts), kept.facts)
                inspector = CulpritProfiler(line, environments, setting, options, limits, folder, shown)
                looks = inspector.look(clearest_probes(known), kept)
            return SearchResult(line, known, ended_by, setting, looks, kept.notes)


def _good_environment(
    line: BuildSequence[Source], environments: EnvironmentCache[Source]
) -> BuildEnvironment:
    try:
        return environments.get(line.states[0])
    except EnvironmentUnderTestError as error:
        msg = f"the good commit cannot be built, so there is nothing to compare with: {error}"
        raise EnvironmentUnderTestError(msg) from error


@contextmanager
def _open_state(state: Path, plan: Mapping[str, Any]) -> Iterator[StateFile]:
    """The state file. A call that could measure nothing leaves none, so that it can be put right and made again."""
    # What a job has comes out of a cache, where nobody deletes it by hand.
    with StateFile.open(state, plan, forget_others=in_actions()) as kept:
        if kept.anew:
            say(f"warning: {kept.anew}")
            kept.add(BisectNote(kept.anew))
        try:
            yield kept
        except Stopped as stopped:
            stopped.outcome = f"what was learnt is kept in {state}; to go on"
            raise
        except TorchperfError:
            if not kept.facts.readings:
                state.unlink(missing_ok=True)
            raise


def _with_batch_sizes(
    setting: MeasurementSetup, line: BuildSequence[Any], kept: StateFile, folder: Path
) -> MeasurementSetup:
    good = line.words[0]
    probes = [with_batch_size(probe, setting.settings, good, kept, folder) for probe in setting.probes]
    return replace(setting, probes=tuple(probes))


def _question(line: BuildSequence[Any], setting: MeasurementSetup, options: BisectOptions) -> BisectQuestion:
    names = [probe.name for probe in setting.probes]
    builder = builder_kind(options)
    # What is imported as it is has no build of its own: each process draws anew what luck decides.
    luck = 0.0 if builder == "worktree" else setting.luck
    return BisectQuestion(
        line.weights,
        names,
        options.min_effect or 0.0,
        build_seconds=BUILD_SECONDS[builder],
        reverts=line.reverts,
        luck=luck,
        rebuilds=builder == "command",
    )


def _state_plan(
    line: BuildSequence[Any], setting: MeasurementSetup, options: BisectOptions
) -> dict[str, Any]:
    """What must be the same for a bisection to be continued: the range, the question, and the kind of machine."""
    identity, given = setting.device.identity(), vars(options)
    return {
        "good": line.names[0],
        "bad": line.names[-1],
        "suspects": len(line.names) - 1,
        "probes": [probe.name for probe in setting.probes],
        "builder": builder_kind(options),
        "min_effect": options.min_effect,
        "machine": f"{identity.name} ({identity.type})",
        **{name: _without_secrets(given[name]) for name in _OPTIONS_OF_PLAN if given[name] not in (None, ())},
    }


def _without_secrets(option: Any) -> Any:
    """As it may stand in a file that goes from job to job."""
    return without_secrets(option) if isinstance(option, str) else option
