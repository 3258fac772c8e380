"""The one place where builds are made and measured: it turns positions of a range into facts."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Generic, TypeVar

from torchperf_ci.bench.command_arm import CommandArm
from torchperf_ci.bench.pairs import ArmFailure, on_same_cpus
from torchperf_ci.bisect.measuring.pairing import CommandPairing, Numbers, Site, WorkloadPairing
from torchperf_ci.bisect.measuring.probes import CommandProbe
from torchperf_ci.bisect.reasoning.facts import Build, Failure, Reading
from torchperf_ci.environments.repository import Revision
from torchperf_ci.errors import EnvironmentUnderTestError, WorkloadsFailedError
from torchperf_ci.machine.disturbance import note
from torchperf_ci.wording import counted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from torchperf_ci.bench.case import Settings
    from torchperf_ci.bisect.measuring.pairing import Pairing
    from torchperf_ci.bisect.measuring.probes import Probe
    from torchperf_ci.bisect.reasoning.facts import Purpose
    from torchperf_ci.environments.cache import Environments
    from torchperf_ci.environments.environment import Environment
    from torchperf_ci.environments.nightlies import Nightly
    from torchperf_ci.machine.devices.base import Device

Source = TypeVar("Source", bound="Revision | Nightly")
"""Of the code: what an environment is made of."""

GOOD = 0
"""The position of the state that everything is known to be well at."""
TRIES = 2
"""Of a pair, before a build is called unfit."""


class Laboratory(Generic[Source]):
    """Builds and measures ``states``, the commits or nightlies of a range by their positions.

    The batch sizes of the ``probes`` are settled (:mod:`torchperf_ci.bisect.measuring.batch_sizes`).
    ``settings`` name the resolved device, whose backend is ``device``; Python and path are filled in for each build,
    and one set of CPUs for all of them. What is written lies below ``scratch``, which is for this range alone.
    """

    def __init__(
        self,
        states: Sequence[Source],
        environments: Environments[Source],
        probes: Sequence[Probe],
        settings: Settings,
        device: Device,
        scratch: Path,
    ) -> None:
        self._states = states
        self._environments = environments
        self._probes = {probe.name: probe for probe in probes}
        self._settings, _ = on_same_cpus(settings, settings)
        self._device = device
        self._scratch = scratch
        self._pairings: dict[str, Pairing] = {}
        self._observed: list[Mapping[str, str]] = []

    @property
    def disturbed(self) -> str:
        """A note, where the machine is known not to have been left alone while pairs were measured."""
        return note(self._observed, f" ({counted(len(self._observed), 'pair')})")

    def build(self, position: int, draw: int = 0) -> Build:
        """Make an environment, if it is not there; that it cannot be made is a fact as well.

        A commit that was built before is tried once more where a ``draw`` of it fails.
        """
        start, state = time.monotonic(), self._states[position]
        try:
            if draw:
                self._again(state, draw)
            else:
                self._environments.get(state)
        except EnvironmentUnderTestError as error:
            return Build(position, ok=False, seconds=time.monotonic() - start, why=str(error), draw=draw)
        repeated = bool(draw) and self._environments.is_repeated(state, draw)
        return Build(position, ok=True, seconds=time.monotonic() - start, draw=draw, repeated=repeated)

    def measure(
        self, probe: str, base: int, head: int, purpose: Purpose, draws: tuple[int, int] = (0, 0)
    ) -> Reading | Failure:
        """One pair of the probe of that name, or the position at which it does not run.

        The reading says which ``draws`` it is of: it is the first one of a commit whose other one made room and cannot
        be made again. Raises :class:`WorkloadsFailedError` where the good commit does not run it, against which
        everything is told in the end.
        """
        sites = []
        for position, draw in zip((base, head), draws, strict=True):
            try:
                sites.append(self._site(position, draw))
            except EnvironmentUnderTestError as error:  # it was there once, and made room for others
                return self._failed(Failure(probe, position, str(error)))
        start = time.monotonic()
        found = self._pair(self._pairing(probe), *sites)
        if isinstance(found, Failure):
            return self._failed(found)
        seconds = time.monotonic() - start
        self._observed.append(found.observed)
        drawn = (sites[0].draw, sites[1].draw)
        return Reading(probe, base, head, found.log_ratios, purpose, seconds, found.values, drawn)

    def _pair(self, pairing: Pairing, base: Site, head: Site) -> Numbers | Failure:
        for _ in range(TRIES):
            try:
                return pairing.pair(base, head)
            except ArmFailure as lost:
                failure = lost
        return pairing.fault(failure, base, head)

    def _failed(self, failure: Failure) -> Failure:
        if failure.position == GOOD:
            raise useless(failure.probe, self._states[GOOD], failure.why)
        return failure

    def _again(self, state: Source, draw: int) -> Environment:
        """What was there once; raises :class:`EnvironmentUnderTestError` where it fails twice."""
        with suppress(EnvironmentUnderTestError):
            return self._environments.get(state, draw)
        return self._environments.get(state, draw)

    def _site(self, position: int, draw: int) -> Site:
        state = self._states[position]
        try:
            environment = self._again(state, draw)
        except EnvironmentUnderTestError:
            environment, draw = self._again(state, 0), 0
        settings = replace(self._settings, python=environment.python, path=environment.path)
        sha = state.sha if isinstance(state, Revision) else None
        arm = CommandArm(settings, sha, environment.worktree, self._scratch / f"{position}.{draw}")
        return Site(position, str(state), arm, draw)

    def _pairing(self, name: str) -> Pairing:
        if name not in self._pairings:
            probe = self._probes[name]
            self._pairings[name] = (
                CommandPairing(probe)
                if isinstance(probe, CommandProbe)
                else WorkloadPairing(probe, self._device, self._scratch / "pairs")
            )
        return self._pairings[name]


def useless(probe: str, good: object, why: str) -> WorkloadsFailedError:
    """What to say where the good build cannot be measured."""
    return WorkloadsFailedError(
        f"{probe} does not run on {good}, which is to be the good one: {why}\n"
        "start the range where it does, or measure something else"
    )
