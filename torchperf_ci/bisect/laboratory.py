"""Make the builds of a range and measure pairs of them, given their positions in the range."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from torchperf_ci.bench.pairs import Side, SideFailure, measure_alone, measure_pair, on_same_cpus
from torchperf_ci.bench.process import find_batch_size
from torchperf_ci.bench.user_command import InstalledBuild, Reader, measure_command_pair, run_user_command
from torchperf_ci.bench.worker_client import WorkerFailure, forget_choices
from torchperf_ci.bisect.probes import CommandProbe, Probe, WorkloadProbe
from torchperf_ci.bisect.reasoning.evidence import BisectReading, BuildAttempt, ProbeBatchSize, ProbeFailure
from torchperf_ci.document import counted, first_and_last
from torchperf_ci.environments.cache import EnvironmentCache, content_digests
from torchperf_ci.environments.revisions import Revision
from torchperf_ci.errors import EnvironmentUnderTestError, WorkloadsFailedError
from torchperf_ci.machine.interference import interference_note, watch_interference
from torchperf_ci.metrics import COMPILE_TIMES
from torchperf_ci.scratch import refuse_full_disk

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from torchperf_ci.bench.case import Settings
    from torchperf_ci.bisect.commits import BuildSource
    from torchperf_ci.bisect.measurement_setup import BisectLimits, MeasurementSetup
    from torchperf_ci.bisect.reasoning.evidence import PlannedPair
    from torchperf_ci.bisect.state_file import StateFile
    from torchperf_ci.environments.build_environment import BuildEnvironment


@dataclass(frozen=True)
class MeasurableBuild:
    """A build whose environment exists: a ``draw`` of the commit at ``position``, called ``words`` in messages."""

    position: int
    words: str
    installed: InstalledBuild
    draw: int = 0


@dataclass(frozen=True)
class PairNumbers:
    """The results of a pair by series: ln(head/base), positive where head is worse, and base in the series' unit.

    ``observed`` describes interference on the machine during the pair. ``resolution``, ``directions`` and ``missing``
    are as in a reading.
    """

    log_ratios: Mapping[str, float]
    values: Mapping[str, float] = field(default_factory=dict)
    observed: Mapping[str, str] = field(default_factory=dict)
    resolution: Mapping[str, float] = field(default_factory=dict)
    directions: Mapping[str, str] = field(default_factory=dict)
    missing: tuple[str, ...] = ()


@dataclass(frozen=True)
class WorkloadPairing:
    """Runs two workers side by side. The probe's batch size is fixed; ``scratch`` holds links to build folders.

    Like :class:`CommandPairing` it measures fresh processes of both builds (``pair``), and says on which of them the
    probe does not run after a pair has failed (``fault``).
    """

    probe: WorkloadProbe
    scratch: Path

    def pair(self, base: MeasurableBuild, head: MeasurableBuild, *, head_first: bool) -> PairNumbers:
        folder, settings = self._folder(base, head), (base.installed.settings, head.installed.settings)
        cold = not {*COMPILE_TIMES}.isdisjoint(self.probe.metrics)
        pair = measure_pair(self.probe.case, *settings, folder, head_first=head_first, cold=cold)
        ratios = self.probe.log_ratios(pair)
        if not ratios:
            side: Side = "head"
            reason = f"there is no number of {', '.join(self.probe.metrics)} above 0"
            raise SideFailure(side, WorkerFailure("failed", reason))
        missing = tuple(name for name in self.probe.series if name not in ratios)
        return PairNumbers(ratios, self.probe.values(pair), pair.observed, missing=missing)

    def fault(self, failure: SideFailure, base: MeasurableBuild, head: MeasurableBuild) -> ProbeFailure:
        """Blame the build that failed if it also fails alone; beside the other one, memory may have been short."""
        suspect = base if failure.side == "base" else head
        settings, scratch = suspect.installed.settings, suspect.installed.scratch
        alone = measure_alone(self.probe.case, settings, scratch, first=False)
        if not alone.passed:
            why = _failure_text(WorkerFailure(alone.status, alone.reason, alone.log))
            return ProbeFailure(self.probe.name, suspect.position, why)
        why = f"it runs alone, but not beside {base.words}: {failure.side}: {_failure_text(failure)}"
        return ProbeFailure(self.probe.name, head.position, why)

    def _folder(self, base: MeasurableBuild, head: MeasurableBuild) -> Path:
        """A folder for the pair, in which each side finds the compiler cache of its own build and of no other."""
        folder = self.scratch / f"{base.position}.{base.draw}-{head.position}.{head.draw}"
        folder.mkdir(parents=True, exist_ok=True)
        if base == head:  # a control: its two processes must not share a cache, nor the build luck in it
            return folder
        for side, site in (("base", base), ("head", head)):
            site.installed.scratch.mkdir(parents=True, exist_ok=True)
            if not (folder / side).is_symlink():
                (folder / side).symlink_to(site.installed.scratch.absolute())
        return folder


class CommandPairing:
    """Runs a command in two environments in turn.

    A run that fails is repeated; if the command then runs on the same build, it was ``lost`` by chance.
    """

    def __init__(self, probe: CommandProbe) -> None:
        self._probe = probe
        self._tried: set[InstalledBuild] = set()
        self.lost: list[WorkerFailure] = []

    def pair(self, base: MeasurableBuild, head: MeasurableBuild, *, head_first: bool) -> PairNumbers:
        self._try_out("base", base.installed)
        self._try_out("head", head.installed)
        probe, builds = self._probe, (base.installed, head.installed)
        printed: list[Mapping[str, float]] = []
        units: list[float] = []
        directions: dict[str, str] = {}

        def read(output: Path) -> Mapping[str, float]:
            costs = probe.costs(output)
            if not printed:
                directions.update(probe.directions(output))
            units.append(probe.resolution(output))
            printed.append(costs)
            return costs

        with watch_interference(base.installed.settings.hardware) as observed:
            run_on = partial(self._run, read=read, tries=RUNS)
            ratios = measure_command_pair(run_on, *builds, head_first=head_first)
        tied = [name for name in ratios if len({costs[name] for costs in printed}) < len(printed)]
        resolution = dict.fromkeys(tied, max(units)) if max(units) else {}
        missing = tuple({name: None for costs in printed for name in costs if name not in ratios})
        return PairNumbers(ratios, {}, observed, resolution, directions, missing)

    def fault(self, failure: SideFailure, base: MeasurableBuild, head: MeasurableBuild) -> ProbeFailure:
        """Blame the build whose run failed; the two never run at the same time."""
        at_fault = base if failure.side == "base" else head
        return ProbeFailure(self._probe.name, at_fault.position, _failure_text(failure))

    def failure_on(self, build: MeasurableBuild) -> ProbeFailure | None:
        """Why the command does not run on a build, if it does not; its first run there does not count anyway."""
        for _ in range(PAIR_TRIES):
            try:
                self._try_out("base", build.installed)
            except SideFailure as lost:
                failure = lost
            else:
                return None
        return self.fault(failure, build, build)

    def _try_out(self, side: Side, build: InstalledBuild) -> None:
        """Run the command once uncounted if the build is new or has to be tuned again, which makes a run slower."""
        forgotten = forget_choices(build.cache)
        if build in self._tried and not forgotten:
            return
        try:
            self._run(build, self._probe.costs, FIRST_RUNS * 2 if self.lost else FIRST_RUNS)
        except WorkerFailure as failure:
            raise SideFailure(side, failure) from None
        self._tried.add(build)

    def _run(self, build: InstalledBuild, read: Reader, tries: int) -> Mapping[str, float]:
        """Run the command until it succeeds, at most ``tries`` times; what takes too long would do so as often."""
        failed: list[WorkerFailure] = []
        while True:
            try:
                printed = run_user_command(self._probe.command, build, read)
            except WorkerFailure as failure:
                failed.append(failure)
                if len(failed) >= tries or failure.status == "timeout":
                    raise
            else:
                self.lost += failed
                return printed


def _failure_text(failure: WorkerFailure) -> str:
    return f"{failure}\n{failure.log}".rstrip()


GOOD = 0
"""The position of the good commit."""
PAIR_TRIES = 2
"""How often a pair is tried before a build counts as unusable. The good commit is built anew as often."""
RUNS = 8
"""How often a run is tried on a build on which the command has run: a quick one runs forty times per pair, and if one
run in three fails by chance, one pair in 150 has to be tried again. A pair of which a process crashes is tried as
often, since that may be chance: with one process in five, all but one pair in 3,000 succeed."""
FIRST_RUNS = 2
"""How often the first run on a build is tried, which may be broken; twice as often if runs were lost before."""


class Laboratory:
    """Builds and measures ``sources``, the commits or nightlies of a range by position.

    The batch sizes of the probes of ``setup`` are already fixed. Its settings name the resolved device; Python and path
    are filled in for each build, and all builds use the same CPUs. Files are written below ``scratch``, which belongs
    to this range alone. After the deadline of the ``limits``, no build that failed is tried again.
    """

    def __init__(
        self,
        sources: Sequence[BuildSource],
        environments: EnvironmentCache[BuildSource],
        setup: MeasurementSetup,
        scratch: Path,
        limits: BisectLimits,
    ) -> None:
        self._sources = sources
        self._environments = environments
        self._settings, _ = on_same_cpus(setup.settings, setup.settings)
        self._scratch = scratch
        self._limits = limits
        self._pairings = {
            probe.name: CommandPairing(probe)
            if isinstance(probe, CommandProbe)
            else WorkloadPairing(probe, scratch / "pairs")
            for probe in setup.probes
        }
        self._observed: list[Mapping[str, str]] = []
        self._broken: set[str] = set()  # the probes that do not run on the good commit

    @property
    def remarks(self) -> Sequence[str]:
        """Notes about interference on the machine while pairs were measured, and about runs that were repeated."""
        lost = [run for one in self._pairings.values() if isinstance(one, CommandPairing) for run in one.lost]
        notes = [interference_note(self._observed, f" ({counted(len(self._observed), 'pair')})")]
        if lost:
            repeated, last = counted(len(lost), "run"), first_and_last(_failure_text(lost[-1]))
            notes.append(
                f"the command fails by chance: {repeated} had to be repeated on the same build, last: {last}"
            )
        return [*filter(None, notes)]

    def build(self, position: int, draw: int = 0) -> BuildAttempt:
        """Make the environment of a commit unless it exists; a failure is returned, not raised.

        A new ``draw`` of a commit that was built before is tried twice.
        """
        source, get = self._sources[position], self._get_anew if draw else self._environments.get
        build = attempt_build(partial(get, source, draw), position, draw)
        return replace(build, repeated=build.ok and draw > 0 and self._environments.is_repeated(source, draw))

    def holds(self, position: int, draw: int) -> bool:
        """Whether the environment of a build exists; one that an earlier call has made is made again to measure it."""
        return self._environments.holds(self._sources[position], draw)

    def build_good_anew(self) -> BuildAttempt | None:
        """Build the good commit once more, or return None if the deadline leaves no time for it.

        Raises :class:`EnvironmentUnderTestError` if nothing can be built now.
        """
        for _ in range(PAIR_TRIES):
            if self._limits.is_late:
                return None
            again = attempt_build(partial(self._environments.try_anew, self._sources[GOOD]), GOOD)
            if again.ok:
                return again
        msg = (
            "builds fail, and now that of the good commit does, too, which was built before: the network or a package "
            "index may be down; these failures do not count, and once builds work again the same call goes on from "
            f"here: {again.why}"
        )
        raise EnvironmentUnderTestError(msg)

    def try_good(self) -> None:
        """Raise :class:`WorkloadsFailedError` if a command does not run on the good commit, before others are built."""
        for pairing in self._pairings.values():
            if isinstance(pairing, CommandPairing) and (
                failure := pairing.failure_on(self._measurable(GOOD, 0))
            ):
                self._failed(failure)

    def measure(self, step: PlannedPair) -> BisectReading | ProbeFailure | BuildAttempt:
        """Measure a planned pair, or return the position at which the probe does not run.

        If one of its builds cannot be made again, and the deadline leaves open why, the result is that failed build.
        The reading says which ``draws`` were measured: where the planned draw was evicted and cannot be made again, it
        is the first one. Raises :class:`WorkloadsFailedError` if no probe runs on good, the reference for all results.
        """
        builds = []
        for position, draw in zip((step.base, step.head), step.draws, strict=True):
            try:
                builds.append(self._measurable(position, draw))
            except EnvironmentUnderTestError as error:  # an earlier call built it, or it was evicted
                if self.build_good_anew():
                    return self._failed(ProbeFailure(step.probe, position, str(error)))
                return BuildAttempt(position, ok=False, why=str(error))
        start = time.monotonic()
        reading = self._pair(step, *builds)
        if isinstance(reading, ProbeFailure):
            return self._failed(reading)
        self._observed.append(reading.observed)
        return BisectReading(
            step.probe,
            step.base,
            step.head,
            reading.log_ratios,
            step.purpose,
            time.monotonic() - start,
            reading.values,
            (builds[0].draw, builds[1].draw),
            step.head_first,
            reading.resolution,
            reading.directions,
            reading.missing,
        )

    def _pair(
        self, step: PlannedPair, base: MeasurableBuild, head: MeasurableBuild
    ) -> PairNumbers | ProbeFailure:
        pairing, tries = self._pairings[step.probe], 0
        while True:
            try:
                return pairing.pair(base, head, head_first=step.head_first)
            except SideFailure as failure:
                tries += 1
                if tries >= (RUNS if failure.status == "crashed" else PAIR_TRIES):
                    return pairing.fault(failure, base, head)

    def _failed(self, failure: ProbeFailure) -> ProbeFailure:
        refuse_full_disk(failure.why)
        if failure.position == GOOD:
            self._broken.add(failure.probe)
            if self._broken == {*self._pairings}:
                raise good_build_fails(failure.probe, self._sources[GOOD], failure.why)
        return failure

    def _get_anew(self, source: BuildSource, draw: int) -> BuildEnvironment:
        """Get an environment that existed before; raises :class:`EnvironmentUnderTestError` if it fails twice."""
        try:
            return self._environments.get(source, draw)
        except EnvironmentUnderTestError:
            if self._limits.is_late:
                raise
        return self._environments.get(source, draw)

    def _measurable(self, position: int, draw: int) -> MeasurableBuild:
        source = self._sources[position]
        try:
            environment = self._get_anew(source, draw)
        except EnvironmentUnderTestError:
            if not draw:
                raise
            environment, draw = self._get_anew(source, 0), 0
        settings = replace(self._settings, python=environment.python, path=environment.path)
        sha = source.sha if isinstance(source, Revision) else None
        installed = InstalledBuild(settings, sha, environment.worktree, self._scratch / f"{position}.{draw}")
        return MeasurableBuild(position, str(source), installed, draw)


def attempt_build(make: Callable[[], BuildEnvironment | None], position: int, draw: int = 0) -> BuildAttempt:
    """Call ``make`` to build a commit, and return how long that took and whether, or why not, it succeeded."""
    start = time.monotonic()
    try:
        made = make()
    except EnvironmentUnderTestError as error:
        return BuildAttempt(position, ok=False, seconds=time.monotonic() - start, why=str(error), draw=draw)
    seconds, contents = time.monotonic() - start, content_digests(made) if made and not draw else ()
    return BuildAttempt(position, ok=True, seconds=seconds, draw=draw, contents=contents)


def good_build_fails(probe: str, good: object, why: str) -> WorkloadsFailedError:
    """The error for a good build that cannot be measured."""
    return WorkloadsFailedError(
        f"{probe} does not run on {good}, the good commit: {why}\n"
        "choose a --good on which it runs, or measure something else"
    )


def with_batch_size(probe: Probe, settings: Settings, good: object, state: StateFile, scratch: Path) -> Probe:
    """The probe with a batch size: its own, the one in the state file, or one that is found now and stored there.

    ``settings`` are those of the good build, which messages call ``good``. Raises :class:`WorkloadsFailedError` if
    the build cannot process even one sample.
    """
    if isinstance(probe, CommandProbe) or probe.case.batch_size:
        return probe
    if probe.name not in state.batch_sizes:
        pinned, _ = on_same_cpus(settings, settings)
        try:
            size = find_batch_size(probe.case, pinned, scratch / "batch_sizes")
        except WorkerFailure as failure:
            raise good_build_fails(probe.name, good, str(failure)) from None
        state.add(ProbeBatchSize(probe.name, size))
    return replace(probe, case=replace(probe.case, batch_size=state.batch_sizes[probe.name]))
