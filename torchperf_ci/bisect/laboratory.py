"""The one place where builds are made and measured: it turns positions of a range into facts."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Generic, TypeVar

from torchperf_ci.bench.batch import find_batch_size
from torchperf_ci.bench.client import WorkerFailure
from torchperf_ci.bench.command_arm import CommandArm
from torchperf_ci.bench.pairs import ArmFailure, on_same_cpus
from torchperf_ci.bisect.facts import Build, Failure, Reading
from torchperf_ci.bisect.pairing import CommandPairing, Site, WorkloadPairing
from torchperf_ci.bisect.probes import CommandProbe
from torchperf_ci.environments.repository import Revision
from torchperf_ci.errors import EnvironmentUnderTestError, WorkloadsFailedError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from torchperf_ci.bench.case import Settings
    from torchperf_ci.bisect.facts import Purpose
    from torchperf_ci.bisect.pairing import Pairing
    from torchperf_ci.bisect.probes import Probe, WorkloadProbe
    from torchperf_ci.environments.cache import Environments
    from torchperf_ci.environments.nightlies import Nightly
    from torchperf_ci.machine.devices.base import Device

State = TypeVar("State", bound="Revision | Nightly")
"""Of the code: what an environment is made of."""

GOOD = 0
"""The position of the state that everything is known to be well at."""
TRIES = 2
"""Of a pair, before a build is called unfit."""


class Laboratory(Generic[State]):
    """Builds and measures ``states``, the commits or nightlies of a range by their positions.

    ``settings`` name the resolved device, whose backend is ``device``; Python and path are filled in for each build,
    and one set of CPUs for all of them. What is written lies below ``scratch``, which is for this range alone.
    """

    def __init__(
        self,
        states: Sequence[State],
        environments: Environments[State],
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

    def build(self, position: int) -> Build:
        """Make an environment, if it is not there; that it cannot be made is a fact as well."""
        start = time.monotonic()
        try:
            self._environments.get(self._states[position])
        except EnvironmentUnderTestError as error:
            return Build(position, ok=False, seconds=time.monotonic() - start, why=str(error))
        return Build(position, ok=True, seconds=time.monotonic() - start)

    def measure(self, probe: str, base: int, head: int, purpose: Purpose) -> Reading | Failure:
        """One pair of the probe of that name, or the position at which it does not run.

        Raises :class:`WorkloadsFailedError` where that is the good one, against which everything is told in the end.
        """
        pairing = self._pairing(probe)
        start = time.monotonic()
        found = self._log_ratios(probe, pairing, base, head)
        if not isinstance(found, Failure):
            return Reading(probe, base, head, found, purpose, time.monotonic() - start)
        if found.position == GOOD:
            raise self._useless(probe, found.why)
        return found

    def _log_ratios(
        self, probe: str, pairing: Pairing, base: int, head: int
    ) -> Mapping[str, float] | Failure:
        sites = []
        for position in (base, head):
            try:
                sites.append(self._site(position))
            except EnvironmentUnderTestError as error:  # it was there once, and made room for others
                return Failure(probe, position, str(error))
        for _ in range(TRIES):
            try:
                return pairing.pair(*sites)
            except ArmFailure as lost:
                failure = lost
        return pairing.fault(failure, *sites)

    def _site(self, position: int) -> Site:
        state = self._states[position]
        environment = self._environments.get(state)
        settings = replace(self._settings, python=environment.python, path=environment.path)
        sha = state.sha if isinstance(state, Revision) else None
        arm = CommandArm(settings, sha, environment.worktree, self._scratch / f"{position}")
        return Site(position, str(state), arm)

    def _pairing(self, name: str) -> Pairing:
        """Made on first use, because the good build has to find a batch size that is open."""
        if name not in self._pairings:
            probe = self._probes[name]
            self._pairings[name] = (
                CommandPairing(probe)
                if isinstance(probe, CommandProbe)
                else WorkloadPairing(self._settled(probe), self._device, self._scratch / "pairs")
            )
        return self._pairings[name]

    def _settled(self, probe: WorkloadProbe) -> WorkloadProbe:
        """The probe with a batch size."""
        if probe.case.batch_size:
            return probe
        good = self._site(GOOD).arm
        try:
            size = find_batch_size(probe.case, good.settings, good.scratch)
        except WorkerFailure as failure:
            raise self._useless(probe.name, str(failure)) from None
        return replace(probe, case=replace(probe.case, batch_size=size))

    def _useless(self, probe: str, why: str) -> WorkloadsFailedError:
        return WorkloadsFailedError(
            f"{probe} does not run on {self._states[GOOD]}, which is to be the good one: {why}\n"
            "start the range where it does, or measure something else"
        )
