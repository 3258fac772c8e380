"""One pair of a probe on two builds, and whose fault it is where there is none."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol

from torchperf_ci.bench.client import WorkerFailure
from torchperf_ci.bench.command_pairs import measure_command_pair
from torchperf_ci.bench.luck import forget_choices
from torchperf_ci.bench.pairs import ArmFailure, measure_pair
from torchperf_ci.bench.process import measure
from torchperf_ci.bench.user_command import run_command
from torchperf_ci.bisect.reasoning.facts import Failure
from torchperf_ci.machine.interference import watched

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from torchperf_ci.bench.command_arm import CommandArm
    from torchperf_ci.bench.pairs import Side
    from torchperf_ci.bisect.measuring.probes import CommandProbe, WorkloadProbe
    from torchperf_ci.machine.devices.base import Device

BRIEF_SECONDS = 0.1
"""Of sampling, where a workload is only to be seen to work."""


@dataclass(frozen=True)
class Site:
    """A build that is there, a ``draw`` of the commit at a position of the range, which ``words`` name."""

    position: int
    words: str
    arm: CommandArm
    draw: int = 0


@dataclass(frozen=True)
class Numbers:
    """What a pair has told by series: ln(head/base), positive where head is worse, and base in the series' unit.

    ``observed`` is what happened on the machine meanwhile.
    """

    log_ratios: Mapping[str, float]
    values: Mapping[str, float] = field(default_factory=dict)
    observed: Mapping[str, str] = field(default_factory=dict)


class Pairing(Protocol):
    """How a kind of probe is measured."""

    def pair(self, base: Site, head: Site) -> Numbers:
        """Fresh processes of both; raises :class:`ArmFailure`."""

    def fault(self, failure: ArmFailure, base: Site, head: Site) -> Failure:
        """On which of the two builds the probe does not run, after a pair has failed."""


@dataclass(frozen=True)
class WorkloadPairing:
    """Two workers side by side. The probe's batch size is settled; links to the builds' folders lie in ``scratch``."""

    probe: WorkloadProbe
    device: Device
    scratch: Path

    def pair(self, base: Site, head: Site) -> Numbers:
        folder = self._folder(base, head)
        pair = measure_pair(self.probe.case, base.arm.settings, head.arm.settings, folder)
        ratios = self.probe.log_ratios(pair)
        if not ratios:
            side: Side = "head"
            reason = f"there is no number of {', '.join(self.probe.metrics)} above 0"
            raise ArmFailure(side, WorkerFailure("failed", reason))
        return Numbers(ratios, self.probe.values(pair), pair.observed)

    def fault(self, failure: ArmFailure, base: Site, head: Site) -> Failure:
        """That on which it failed, if it fails alone there, too: beside the other one, memory may have been short."""
        suspect = base if failure.side == "base" else head
        settings = replace(suspect.arm.settings, budget=BRIEF_SECONDS, target_ci=1.0)
        alone = measure(self.probe.case, settings, self.device, suspect.arm.scratch, first=False)
        if not alone.passed:
            why = _said(WorkerFailure(alone.status, alone.reason, alone.log))
            return Failure(self.probe.name, suspect.position, why)
        why = f"it runs alone, but not beside {base.words}: {failure.side}: {_said(failure)}"
        return Failure(self.probe.name, head.position, why)

    def _folder(self, base: Site, head: Site) -> Path:
        """A folder for the pair, in which either arm finds what its own commit has compiled, and nobody else has."""
        folder = self.scratch / f"{base.position}.{base.draw}-{head.position}.{head.draw}"
        folder.mkdir(parents=True, exist_ok=True)
        if base == head:  # a control: two processes never share a cache, nor what is drawn for it
            return folder
        for side, site in (("base", base), ("head", head)):
            site.arm.scratch.mkdir(parents=True, exist_ok=True)
            if not (folder / side).is_symlink():
                (folder / side).symlink_to(site.arm.scratch.absolute())
        return folder


class CommandPairing:
    """A command in two environments in turn."""

    def __init__(self, probe: CommandProbe) -> None:
        self._probe = probe
        self._tried: set[CommandArm] = set()

    def pair(self, base: Site, head: Site) -> Numbers:
        self._try_out("base", base.arm)
        self._try_out("head", head.arm)
        with watched(base.arm.settings.hardware) as observed:
            ratios = measure_command_pair(self._probe.command, base.arm, head.arm, self._probe.costs)
        return Numbers(ratios, observed=observed)

    def fault(self, failure: ArmFailure, base: Site, head: Site) -> Failure:
        """That of whose run has failed: the runs never meet."""
        at_fault = base if failure.side == "base" else head
        return Failure(self._probe.name, at_fault.position, _said(failure))

    def _try_out(self, side: Side, arm: CommandArm) -> None:
        """One run that does not count on a build that is new, or has to choose anew what it compiles: it is slower."""
        forgotten = forget_choices(arm.cache)
        if arm in self._tried and not forgotten:
            return
        try:
            run_command(self._probe.command, arm, self._probe.costs)
        except WorkerFailure as failure:
            raise ArmFailure(side, failure) from None
        self._tried.add(arm)


def _said(failure: WorkerFailure) -> str:
    return f"{failure}\n{failure.log}".rstrip()
