"""What accelerators share: memory and timing through torch, and the interface to a vendor's library."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from torchperf_ci.machine.devices import interface


def visible_indices(choice: str | None, uuids: Sequence[str]) -> list[int]:
    """The indices into ``uuids`` that are visible under ``choice``, a list like ``CUDA_VISIBLE_DEVICES``, in its order.

    ``None`` is an unset variable: all are visible. An entry is an index or the beginning of a UUID; the list ends at
    the first entry that is neither (CUDA C++ Programming Guide, "CUDA Environment Variables").
    """
    if choice is None:
        return list(range(len(uuids)))
    chosen: list[int] = []
    for entry in choice.split(","):
        index = _index(entry.strip(), uuids)
        if index is None or index in chosen:
            break
        chosen.append(index)
    return chosen


def _index(entry: str, uuids: Sequence[str]) -> int | None:
    if entry.isascii() and entry.isdigit():
        return int(entry) if int(entry) < len(uuids) else None
    matches = [index for index, uuid in enumerate(uuids) if entry and uuid.startswith(entry)]
    return matches[0] if len(matches) == 1 else None


MILLISECOND = 1e-3
SHORTEST = 1e-6
"""In seconds. Events resolve half a microsecond, so two events closer than that may read the same."""


class Accelerator(interface.Device):
    """A device with its own module in torch (``torch.cuda``), and with events that time reliably.

    An H100 at its power limit settles within a second; its clock then oscillates with a period of 1.0 to 1.2 s. The
    median over half a period is 3% off, over a whole one less than 1% (``benchmarks/sustained.py``).
    """

    timing = interface.Timing(load=1.0, total=1.2)

    def __init__(self, seen: interface.TorchGpu = interface.UNKNOWN_GPU) -> None:
        self._seen = seen

    def memory_allocated(self) -> int:
        return int(self._torch.memory_allocated())

    def reset_peak_memory(self) -> None:
        """Release cached blocks and reset the peak, so that it covers only memory used from now on."""
        self._torch.empty_cache()
        self._torch.reset_peak_memory_stats()

    def peak_memory(self) -> int:
        return int(self._torch.max_memory_allocated())

    def peak_held_memory(self) -> int:
        return int(self._torch.max_memory_reserved())

    def time_steps(self, step: Callable[[], object], count: int) -> list[float]:
        """Seconds of each step by the device's own clock; events are created beforehand, with one wait at the end."""
        import torch

        pairs = [
            tuple(torch.Event(self.torch_type, enable_timing=True) for _ in range(2)) for _ in range(count)
        ]
        self.synchronize()
        for start, end in pairs:
            start.record()
            step()
            end.record()
        self.synchronize()
        return [max(start.elapsed_time(end) * MILLISECOND, SHORTEST) for start, end in pairs]


MIG = " MIG "
"""Part of CUDA's name of a MIG slice, such as ``NVIDIA H100 80GB HBM3 MIG 1g.10gb``."""


class VendorGpu(interface.VendorReadings, ABC):
    """One GPU as its vendor's library shows it. A value that it does not offer is None, empty, or left out.

    ``refusal`` is the name of the library's exception.
    """

    refusal: str

    def __init__(self, library: Any, handle: Any) -> None:
        self._library, self._handle = library, handle

    def _write(self, function: str, *arguments: object) -> None:
        with interface.vendor_refusals(getattr(self._library, self.refusal)):
            getattr(self._library, function)(self._handle, *arguments)

    @abstractmethod
    def identity(self) -> interface.DeviceIdentity:
        """The hardware's name, memory, driver and settings, which outlive a process: limits, modes, partitions."""


@dataclass(frozen=True)
class _NoGpu(interface.VendorReadings):
    """What is read of a GPU that the vendor's library does not show; ``problem`` is why."""

    problem: str

    def condition(self) -> interface.GpuCondition:
        return interface.GpuCondition(problem=self.problem)

    def changes(self) -> Sequence[interface.TuningChange]:
        return (interface.TuningChange("gpu_clocks", refusal=self.problem),)


class ManagedGpu(Accelerator):
    """A device that is managed through a vendor's library. Without the library it still measures, and reports that.

    ``kind`` is the name of the device in records, ``vendor`` its maker.
    """

    kind: str
    vendor: str

    @abstractmethod
    def visible_gpus(self) -> list[VendorGpu]:
        """The GPUs that torch sees, at least one, starting with the one it uses; raises :class:`VendorToolError`."""

    def identity(self) -> interface.DeviceIdentity:
        gpus, problem = self._visible
        seen = self._seen
        if not gpus:
            return interface.DeviceIdentity(
                self.kind,
                seen.name or f"unknown {self.vendor} GPU",
                gpu_count=seen.count,
                gpu_memory_mib=seen.memory_mib,
                facts={"gpu_problem": problem, **({"gpu_pci": seen.pci} if seen.pci else {})},
            )
        identity = replace(gpus[0].identity(), gpu_count=seen.count or len(gpus))
        if MIG in seen.name:
            return replace(identity, type=seen.name, gpu_memory_mib=seen.memory_mib)
        return identity

    @property
    def tools(self) -> interface.VendorReadings:
        gpus, problem = self._visible
        return gpus[0] if gpus else _NoGpu(problem)

    @cached_property
    def _visible(self) -> tuple[list[VendorGpu], str]:
        """The visible GPUs and ``""``, or none and the reason."""
        try:
            return self.visible_gpus(), ""
        except interface.VendorToolError as error:
            return [], str(error)
