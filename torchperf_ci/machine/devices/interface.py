"""What every kind of device answers."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


@dataclass(frozen=True)
class Throttling:
    """Reasons for a lowered clock, in the device's words: those that void a sample, and those that warn.

    ``known`` is whether the device tells them.
    """

    voiding: tuple[str, ...] = ()
    warning: tuple[str, ...] = ()
    known: bool = True


@dataclass(frozen=True)
class ThrottleCounters:
    """For how long a GPU's clock has been held down since some fixed moment: by reasons that void a sample, and by its
    power limit (None where it does not count). ``total`` is all of that time, in the same unit.
    """

    total: float
    voiding: Mapping[str, float]
    power: float | None = None


@dataclass(frozen=True)
class GpuReading:
    """What a GPU shows at one ``moment`` (of the monotonic clock) of its work; None where it does not say.

    MHz, watts, °C and joules since some fixed moment; ``processes`` is how many compute on it.
    """

    moment: float
    sm_mhz: float | None = None
    watts: float | None = None
    temperature: float | None = None
    joules: float | None = None
    processes: int = 0
    throttling: Throttling = field(default_factory=Throttling)


@dataclass(frozen=True)
class Timing:
    """How steps are to be timed, in seconds: on a CPU only that a sample lasts at least ``sample``, so that reading the
    clock (some 50 ns) stays below 0.01% of it.

    A device that lowers its clock under load shows only then what it can keep up: it is kept busy for ``load`` and
    until it has settled, and sampled for ``total`` at least, without a pause in between. In ``batches`` are timed the
    steps of a device that can only be waited for: one sample is one batch.
    """

    sample: float = 0.002
    load: float = 0.0
    total: float = 0.0
    batches: bool = False


@dataclass(frozen=True)
class TorchGpu:
    """The GPU as torch sees it, in the environment under test: the first of ``count``.

    Only torch knows which one that is, and whether it is a part of one: a MIG slice has a ``name`` and a memory of its
    own. ``uuid`` is as torch writes it, without the vendor's prefix, ``pci`` as Linux does. Empty: torch did not say.
    """

    name: str = ""
    uuid: str = ""
    pci: str = ""
    memory_mib: int = 0
    count: int = 0


UNKNOWN_GPU = TorchGpu()
"""Where no torch was asked."""


@dataclass(frozen=True)
class DeviceIdentity:
    """What a device is called in a record's ``runners``.

    ``name`` is the device kind that queries filter on (``cuda``, ``rocm``, ``cpu``, ``arm64-cpu``, …) and
    ``type`` the hardware (``NVIDIA H100 80GB HBM3``). ``gpu_memory_mib`` is per GPU; 0 where there is none,
    or where it is the host's. ``driver`` is a version, empty where there is none, and ``driver_branch`` what of
    it tells drivers apart that differ in speed. ``settings`` are switches of the device that change its speed.
    ``facts`` hold what else is worth recording.
    """

    name: str
    type: str
    gpu_count: int = 0
    gpu_memory_mib: int = 0
    driver: str = ""
    driver_branch: str = ""
    settings: Mapping[str, str] = field(default_factory=dict)
    facts: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class GpuCondition:
    """What the vendor's tools say about a GPU's fitness to be measured; None where they do not say.

    ``problem`` is the reason why nothing can be said at all. Temperatures are in °C; ``processes`` are the
    ids of the processes that compute on it now.
    """

    problem: str = ""
    temperature: int | None = None
    slowdown_temperature: int | None = None
    persistence: bool | None = None
    processes: tuple[int, ...] = ()


@dataclass(frozen=True)
class TuningChange:
    """One way to make the machine steadier, and how to take it back.

    ``undo`` lists the states that the restorer remembers before ``apply`` is called (see
    :mod:`torchperf_ci.machine.restorer`), in the order of change. ``apply`` raises :class:`OSError` or
    :class:`VendorToolError` if it is not allowed.
    """

    name: str
    value: str
    undo: Sequence[Mapping[str, str]]
    apply: Callable[[], None]


@dataclass(frozen=True)
class TuningRefusal:
    """A change that this machine does not have a switch for."""

    name: str
    why: str


class VendorToolError(Exception):
    """A vendor's library or tool is missing, or says no; the message is the reason in its own words."""


class Device(ABC):
    """One kind of device.

    The first group of methods runs in the worker and uses the torch under test; the second runs in the parent
    and uses the vendor's own tools, never torch. A backend imports either of them on use only. Where there
    are several GPUs, the one meant is the first that torch sees.
    """

    torch_type: str
    timing = Timing()

    @abstractmethod
    def synchronize(self) -> None:
        """Wait until the device has done all work given to it."""

    @abstractmethod
    def memory_allocated(self) -> int:
        """Bytes of device memory now in use by this process."""

    @abstractmethod
    def reset_peak_memory(self) -> None:
        """Start a new peak-memory window."""

    @abstractmethod
    def peak_memory(self) -> int:
        """Largest number of bytes in use since :meth:`reset_peak_memory`."""

    def peak_held_memory(self) -> int:
        """The same of bytes in use or kept ready: what is replayed as a graph works in memory that stays its own."""
        return self.peak_memory()

    def time_steps(self, step: Callable[[], object], count: int) -> list[float]:
        """Seconds of each of ``count`` steps; here, where none can be timed alone, only their mean."""
        self.synchronize()
        start = time.perf_counter()
        for _ in range(count):
            step()
        self.synchronize()
        return [(time.perf_counter() - start) / count]

    @abstractmethod
    def identity(self) -> DeviceIdentity:
        """Name and hardware, as the vendor's tools give them."""

    def clocks(self) -> Mapping[str, str]:
        """Current and highest clocks, in MHz, as facts for the record; empty where they cannot be read."""
        return {}

    def throttling(self) -> Throttling:
        """What holds the clock down right now."""
        return Throttling()

    def throttle_counters(self) -> ThrottleCounters | None:
        """How long the clock has been held down; None where nothing counts it."""
        return None

    def reading(self) -> GpuReading | None:
        """What can be read every tenth of a second while it works; None for a device that is not read so."""
        return None

    def energy_joules(self) -> float | None:
        """A counter of energy used by the device, in joules; None where there is none."""
        return None

    def condition(self) -> GpuCondition | None:
        """Fitness to be measured; None for a device that is not a GPU with tools of its own."""
        return None

    def changes(self) -> Sequence[TuningChange | TuningRefusal]:
        """What tuning can do to this device."""
        return ()
