"""The interface of all devices, and the data classes it uses."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Throttling:
    """Reasons why the clock is lowered, in the device's words: those that void a sample, and those that only warn.

    ``known`` is whether the device reports them.
    """

    voiding: tuple[str, ...] = ()
    warning: tuple[str, ...] = ()
    known: bool = True


@dataclass(frozen=True)
class ThrottleCounters:
    """How long a GPU's clock has been throttled since some fixed moment.

    ``voiding`` counts by reasons that void a sample, ``power`` the time at the power limit (None if not counted).
    ``total`` is the whole time, in the same unit.
    """

    total: float
    voiding: Mapping[str, float]
    power: float | None = None


@dataclass(frozen=True)
class GpuReading:
    """One reading of a GPU at a ``moment`` of the monotonic clock; None where the GPU does not report a value.

    The units are MHz, watts, °C, and joules since some fixed moment; ``processes`` is the number of processes that
    compute on the GPU.
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
    """How to time steps, in seconds.

    A sample lasts at least ``sample``, so that on a CPU reading the clock (some 50 ns) takes less than 0.01% of it. A
    device that lowers its clock under load is kept busy for ``load`` and until its clock settles, then sampled for at
    least ``total`` without a pause. With ``batches``, single steps cannot be timed, and each sample is one batch of
    steps.
    """

    sample: float = 0.002
    load: float = 0.0
    total: float = 0.0
    batches: bool = False


@dataclass(frozen=True)
class TorchGpu:
    """The GPU as torch sees it in the environment under test: the first of ``count``.

    Only torch knows which GPU this is, and whether it is a MIG slice, which has a ``name`` and a memory of its own.
    ``uuid`` is as torch writes it, without the vendor's prefix; ``pci`` is as Linux writes it. Empty if torch did not
    say.
    """

    name: str = ""
    uuid: str = ""
    pci: str = ""
    memory_mib: int = 0
    count: int = 0


UNKNOWN_GPU = TorchGpu()
"""Used where torch was not asked."""


@dataclass(frozen=True)
class DeviceIdentity:
    """How a device is named in a record's ``runners``.

    ``name`` is the kind of device that queries filter on (``cuda``, ``rocm``, ``cpu``, ``arm64-cpu``, …) and ``type``
    the hardware (``NVIDIA H100 80GB HBM3``). ``gpu_memory_mib`` is per GPU; 0 without a GPU, or if it uses the host's
    memory. ``driver`` is a version or empty, and ``driver_branch`` is the part of it that can affect speed.
    ``settings`` are switches of the device that affect its speed. ``facts`` hold what else is worth recording.
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
    """What the vendor's tools say about whether a GPU is fit for measuring; None where they do not say.

    ``problem`` is the reason if they can say nothing at all. Temperatures are in °C; ``processes`` are the ids of the
    processes that compute on the GPU now.
    """

    problem: str = ""
    temperature: int | None = None
    slowdown_temperature: int | None = None
    persistence: bool | None = None
    processes: tuple[int, ...] | None = None


@dataclass(frozen=True)
class TuningChange:
    """One change that makes the machine steadier, and how to undo it; or a ``refusal``: why it is not possible here.

    ``undo`` lists the states that the restorer remembers before ``apply`` is called (see
    :mod:`torchperf_ci.machine.restorer`), in the order of change. ``apply`` raises :class:`OSError` or
    :class:`VendorToolError` if it is not allowed.
    """

    name: str
    value: str = ""
    undo: Sequence[Mapping[str, str]] = ()
    apply: Callable[[], None] = lambda: None
    refusal: str = ""


class VendorToolError(Exception):
    """A vendor's library or tool is missing or reports an error; the message is the reason in its own words."""


@contextmanager
def vendor_refusals(kind: type[Exception]) -> Iterator[None]:
    """Raise :class:`VendorToolError`, on one line, for an error of a vendor's library in the block."""
    try:
        yield
    except kind as error:
        raise VendorToolError(" ".join(str(error).split())) from None


class VendorReadings:
    """What a vendor's tools report about a device and can change; these are the answers without such tools."""

    def clocks(self) -> Mapping[str, str]:
        """Current and maximum clocks in MHz, as facts for the record; empty if they cannot be read."""
        return {}

    def throttling(self) -> Throttling:
        """The reasons why the clock is throttled right now."""
        return Throttling()

    def throttle_counters(self) -> ThrottleCounters | None:
        """How long the clock has been throttled; None if nothing counts it."""
        return None

    def reading(self) -> GpuReading | None:
        """What can be sampled every tenth of a second during work; None for a device that is not sampled."""
        return None

    def condition(self) -> GpuCondition | None:
        """Whether the device is fit for measuring; None unless it is a GPU with vendor tools."""
        return None

    def changes(self) -> Sequence[TuningChange]:
        """The changes that tuning can make to this device."""
        return ()


class Device(ABC):
    """One kind of device.

    The methods up to :meth:`time_steps` run in the worker and use the torch under test. The others run in the parent
    and use the vendor's own tools, never torch. A backend imports either of them only on use. If there are several
    GPUs, the first that torch sees is meant.
    """

    torch_type: str
    timing = Timing()

    def is_available(self) -> bool:
        """Whether torch can use such a device here."""
        return bool(self._torch.is_available())

    def synchronize(self) -> None:
        """Wait until the device has finished all work given to it."""
        self._torch.synchronize()

    @property
    def _torch(self) -> Any:
        """``torch.cuda`` or its equivalent; ``torch.accelerator`` reports memory only from torch 2.9 on."""
        import torch

        return getattr(torch, self.torch_type)

    @abstractmethod
    def memory_allocated(self) -> int:
        """Bytes of device memory that this process uses now."""

    @abstractmethod
    def reset_peak_memory(self) -> None:
        """Start a new peak-memory window."""

    @abstractmethod
    def peak_memory(self) -> int:
        """The largest number of bytes in use since :meth:`reset_peak_memory`."""

    def peak_held_memory(self) -> int:
        """Like :meth:`peak_memory`, but including reserved memory: CUDA graphs keep memory of their own for replay."""
        return self.peak_memory()

    def time_steps(self, step: Callable[[], object], count: int) -> list[float]:
        """Seconds of each of ``count`` steps; here, only their mean, because single steps cannot be timed."""
        return [self.mean_seconds(step, count)]

    def mean_seconds(self, step: Callable[[], object], count: int) -> float:
        """The mean of ``count`` steps by the host's clock, with one wait at the end."""
        self.synchronize()
        start = time.perf_counter()
        for _ in range(count):
            step()
        self.synchronize()
        return (time.perf_counter() - start) / count

    @abstractmethod
    def identity(self) -> DeviceIdentity:
        """The device's name and hardware, as the vendor's tools report them."""

    @property
    def tools(self) -> VendorReadings:
        """What else the vendor's tools report about it, and can change."""
        return VendorReadings()
