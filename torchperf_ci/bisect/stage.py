"""One search from its beginning to its end: environments, laboratory, state file, loop."""

from __future__ import annotations

from contextlib import closing, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from torchperf_ci.actions import in_actions
from torchperf_ci.bisect.driver import investigate
from torchperf_ci.bisect.found import Found
from torchperf_ci.bisect.measuring.batch_sizes import settled
from torchperf_ci.bisect.measuring.inside import Inspector
from torchperf_ci.bisect.measuring.laboratory import Laboratory
from torchperf_ci.bisect.reasoning.facts import Note
from torchperf_ci.bisect.reasoning.investigation import Investigation
from torchperf_ci.bisect.reasoning.question import Question, as_known
from torchperf_ci.bisect.setting import BUILD_SECONDS, builder_of
from torchperf_ci.bisect.state import State as StateFile
from torchperf_ci.bisect.telling.conclusion import shown_by
from torchperf_ci.bisect.telling.plan import show_plan
from torchperf_ci.bisect.telling.progress import progress
from torchperf_ci.console import say
from torchperf_ci.environments.cache import Environments
from torchperf_ci.environments.scratch import scratch
from torchperf_ci.errors import EnvironmentUnderTestError, TorchperfError
from torchperf_ci.git import without_secrets
from torchperf_ci.interruption import Stopped

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from contextlib import AbstractContextManager
    from pathlib import Path

    from torchperf_ci.bisect.limits import Limits
    from torchperf_ci.bisect.line.line import Line
    from torchperf_ci.bisect.setting import Setting
    from torchperf_ci.environments.environment import Environment
    from torchperf_ci.environments.nightlies import Nightly
    from torchperf_ci.environments.repository import Revision
    from torchperf_ci.options import BisectOptions

Source = TypeVar("Source", bound="Revision | Nightly")

_OF_THE_PLAN = (
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
    line: Line[Source],
    opened: Callable[..., AbstractContextManager[Environment]],
    resolve: Callable[[Environment], Setting],
    options: BisectOptions,
    state: Path,
    limits: Limits,
) -> Found:
    """Search a line of builds that ``opened`` makes; ``resolve`` says what to measure once the good one is there.

    ``state`` keeps each step. Where a signal ends it, :class:`Stopped` says so.
    """
    show_plan(line, options, limits)
    environments: Environments[Source]
    with Environments(opened) as environments, scratch() as folder:
        setting = resolve(_good(line, environments))
        with _kept(state, _plan(line, setting, options)) as kept:
            setting = _settled(setting, line, kept, folder)
            question = _question(line, setting, options)
            laboratory = Laboratory(
                line.states, environments, setting.probes, setting.settings, setting.device, folder
            )
            with closing(progress(question, line.words)) as shown:
                try:
                    ended_by = investigate(question, laboratory, kept, limits, shown)
                finally:  # kept also where this call is interrupted, and another one concludes
                    if laboratory.disturbed:
                        kept.add(Note(laboratory.disturbed))
                known = Investigation(as_known(question, kept.facts), kept.facts)
                inspector = Inspector(line, environments, setting, options, limits, folder, shown)
                looks = inspector.look(shown_by(known), kept)
            return Found(line, known, ended_by, setting, looks, kept.notes)


def _good(line: Line[Source], environments: Environments[Source]) -> Environment:
    try:
        return environments.get(line.states[0])
    except EnvironmentUnderTestError as error:
        msg = f"the good commit cannot be built, so there is nothing to compare with: {error}"
        raise EnvironmentUnderTestError(msg) from error


@contextmanager
def _kept(state: Path, plan: Mapping[str, Any]) -> Iterator[StateFile]:
    """The state file. A call that could measure nothing leaves none, so that it can be put right and made again."""
    # What a job has comes out of a cache, where nobody deletes it by hand.
    with StateFile.open(state, plan, forget_others=in_actions()) as kept:
        if kept.anew:
            say(f"warning: {kept.anew}")
            kept.add(Note(kept.anew))
        try:
            yield kept
        except Stopped as stopped:
            stopped.outcome = f"what was learnt is kept in {state}; to go on"
            raise
        except TorchperfError:
            if not kept.facts.readings:
                state.unlink(missing_ok=True)
            raise


def _settled(setting: Setting, line: Line[Any], kept: StateFile, folder: Path) -> Setting:
    good = line.words[0]
    probes = [settled(probe, setting.settings, good, kept, folder) for probe in setting.probes]
    return replace(setting, probes=tuple(probes))


def _question(line: Line[Any], setting: Setting, options: BisectOptions) -> Question:
    names = [probe.name for probe in setting.probes]
    builder = builder_of(options)
    # What is imported as it is has no build of its own: each process draws anew what luck decides.
    luck = 0.0 if builder == "worktree" else setting.luck
    return Question(
        line.weights,
        names,
        options.min_effect or 0.0,
        build_seconds=BUILD_SECONDS[builder],
        reverts=line.reverts,
        luck=luck,
        rebuilds=builder == "command",
    )


def _plan(line: Line[Any], setting: Setting, options: BisectOptions) -> dict[str, Any]:
    """What must be the same for a bisection to be continued: the range, the question, and the kind of machine."""
    identity, given = setting.device.identity(), vars(options)
    return {
        "good": line.names[0],
        "bad": line.names[-1],
        "suspects": len(line.names) - 1,
        "probes": [probe.name for probe in setting.probes],
        "builder": builder_of(options),
        "min_effect": options.min_effect,
        "machine": f"{identity.name} ({identity.type})",
        **{name: _shown(given[name]) for name in _OF_THE_PLAN if given[name] not in (None, ())},
    }


def _shown(option: Any) -> Any:
    """As it may stand in a file that goes from job to job."""
    return without_secrets(option) if isinstance(option, str) else option
