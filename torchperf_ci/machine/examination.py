"""Gather what the doctor judges: the state of the machine, and how much equal pieces of work vary."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean, median, stdev
from typing import Literal

from torchperf_ci.machine.devices.interface import Device, GpuCondition, Throttling
from torchperf_ci.machine.devices.system_files import text
from torchperf_ci.machine.host import Host, cxx_compiler, read_host

FindingLevel = Literal["ok", "warn", "bad"]
BLOCK_SECONDS = 0.02
BLOCKS = 50
PROCESSES = 3
"""The default number of processes of a run."""
SURE = 1.96 + 0.84
"""Normal quantiles for 5% false alarms (two-sided) and 80% power."""
USUAL_CHANGE = 0.03
"""The smallest relative change that regressions are usually judged by."""
HOPELESS = 0.10
SYS_ADMIN = 21
"""The number of ``CAP_SYS_ADMIN`` in linux/capability.h."""


@dataclass(frozen=True)
class DoctorFinding:
    """One aspect of the machine: its ``state``, ``why`` it matters and what to ``do``.

    ``warn`` means that numbers are noisier, ``bad`` that they are wrong or cannot be measured.
    """

    check: str
    level: FindingLevel
    state: str
    why: str
    do: str = ""


def finding(
    check: str, ok: bool, state: str, why: str, do: str, level: FindingLevel = "warn"
) -> DoctorFinding:
    """The finding of a check, which says what to ``do`` unless it is ``ok``."""
    return DoctorFinding(check, "ok" if ok else level, state, why, "" if ok else do)


@dataclass(frozen=True)
class BlockNoise:
    """The noise of equal blocks of work: ``cv`` is the coefficient of variation, ``typical`` the median in seconds."""

    cv: float
    typical: float

    @property
    def resolvable(self) -> float:
        """The smallest relative change that two unpaired runs can detect: ``2.8 · cv · √(2/3)``.

        The difference of two means of three values has a standard deviation of ``cv · √(2/3)``. Processes vary more
        than blocks within one process, so this is a lower bound.
        """
        return SURE * self.cv * math.sqrt(2 / PROCESSES)


@dataclass(frozen=True)
class DeviceExercise:
    """The noise of a device by kind of work, and the median of its clock during the work in MHz, if known."""

    noise: Mapping[str, BlockNoise]
    clock: str | None = None


def measure_noise(blocks: int = BLOCKS) -> BlockNoise:
    """Time ``blocks`` equal blocks of about 20 ms each, on one thread."""
    work = _work_for(BLOCK_SECONDS)
    _block(work)
    return noise_of([_block(work) for _ in range(blocks)])


def noise_of(seconds: Sequence[float]) -> BlockNoise:
    """The noise of two or more blocks of equal work."""
    return BlockNoise(stdev(seconds) / fmean(seconds), median(seconds))


def _work_for(seconds: float) -> int:
    """The number of iterations that take ``seconds`` when undisturbed, by the fastest of three tries."""
    work = 1000
    while (taken := min(_block(work) for _ in range(3))) < seconds / 4:
        work *= 2
    return int(work * seconds / taken)


def _block(work: int) -> float:
    start = time.perf_counter()
    for _ in range(work):
        pass
    return time.perf_counter() - start


@dataclass(frozen=True)
class MachineState:
    """The state of this machine, as far as it can be told. ``condition`` is that of a GPU."""

    host: Host
    noise: BlockNoise
    condition: GpuCondition | None = None
    throttling: Throttling = field(default_factory=Throttling)
    compiler: str = ""
    administrator: bool = False
    exercise: DeviceExercise | None = None


def machine_state(device: Device, exercise: DeviceExercise | None = None) -> MachineState:
    """Examine this machine and ``device``; takes about a second, most of it to measure noise, and changes nothing.

    ``exercise`` is how the device performed under work from torch, if a torch was available.
    """
    host = read_host()  # first, so that its load does not include the noise measurement
    return MachineState(
        host=host,
        noise=measure_noise(),
        condition=device.tools.condition(),
        throttling=device.tools.throttling(),
        compiler=cxx_compiler(),
        administrator=_is_administrator(),
        exercise=exercise,
    )


def _is_administrator() -> bool:
    """Whether the kernel lets this process change devices, which root in a container usually may not.

    A driver asks for ``CAP_SYS_ADMIN`` (capabilities(7)), and not for the user.
    """
    status = text(Path("/proc/self/status"))
    effective = re.search(r"^CapEff:\s*([0-9a-f]+)$", status, re.MULTILINE)
    return bool(effective and int(effective[1], 16) >> SYS_ADMIN & 1)


def steadiness(machine: MachineState) -> DoctorFinding:
    """Which change could be detected on this machine without pairs?"""
    why = "variation of the machine itself hides what a commit changed"
    noise = machine.noise
    measured = f"equal blocks of {noise.typical * 1e3:.0f} ms vary by {noise.cv:.1%}"
    level = _level(noise)
    can = "can" if level == "ok" else "cannot"
    state = f"{measured}: this machine {can} resolve {USUAL_CHANGE:.0%} without pairs"
    if level != "ok":
        state += f", only {noise.resolvable:.0%} at best"
    do = "fix what the other findings name, or measure in pairs: --anchor, or torchperf compare"
    return finding("steadiness", level == "ok", state, why, do, level)


def device_steadiness(machine: MachineState) -> list[DoctorFinding]:
    """Which change could be detected on the GPU without pairs?

    Matrix products vary with the GPU's clock, and tiny kernels with the CPU that launches them.
    """
    why = "variation of the machine itself hides what a commit changed"
    if machine.exercise is None:
        return []
    noise, clock = machine.exercise.noise, machine.exercise.clock
    state = ", ".join(f"equal blocks of {kind} vary by {block.cv:.1%}" for kind, block in noise.items())
    if clock:
        state += f"; its clock was {clock} MHz"
    worst = max(noise.values(), key=lambda block: block.resolvable)
    do = "lock its clock, fix what the other findings name, or measure in pairs: torchperf compare"
    level = _level(worst)
    return [finding("gpu steadiness", level == "ok", state, why, do, level)]


def _level(noise: BlockNoise) -> FindingLevel:
    if noise.resolvable <= USUAL_CHANGE:
        return "ok"
    return "warn" if noise.resolvable <= HOPELESS else "bad"
