"""What a GPU with a vendor's management library answers, and the device made of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property
from typing import TYPE_CHECKING

from torchperf_ci.machine.devices.accelerator import Accelerator
from torchperf_ci.machine.devices.base import (
    UNSEEN,
    Change,
    Condition,
    Held,
    Identity,
    Reading,
    Refusal,
    Seen,
    Throttling,
    VendorToolError,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


MIG = " MIG "
"""In CUDA's name of a slice: ``NVIDIA H100 80GB HBM3 MIG 1g.10gb``."""


class Gpu(ABC):
    """One GPU as its vendor's library shows it. A reading that is not offered is None, empty, or left out."""

    @property
    @abstractmethod
    def uuid(self) -> str:
        """The GPU's own identifier."""

    @property
    @abstractmethod
    def name(self) -> str:
        """The hardware's full name."""

    @property
    @abstractmethod
    def driver(self) -> str:
        """The driver's version."""

    @property
    @abstractmethod
    def driver_branch(self) -> str:
        """What of the driver's version tells drivers apart that differ in speed: no patch for security."""

    @property
    @abstractmethod
    def settings(self) -> Mapping[str, str]:
        """Switches that change its speed, and outlive a process: limits, modes, partitions."""

    @property
    @abstractmethod
    def pci_address(self) -> str:
        """Where it sits, as Linux writes it (``0000:3b:00.0``); empty if unknown."""

    @property
    @abstractmethod
    def memory_mib(self) -> int:
        """Its memory; 0 if unknown."""

    @abstractmethod
    def clocks(self) -> Mapping[str, str]:
        """See :meth:`Device.clocks`."""

    @abstractmethod
    def throttling(self) -> Throttling:
        """See :meth:`Device.throttling`."""

    @abstractmethod
    def throttle_counters(self) -> Held | None:
        """See :meth:`Device.throttle_counters`."""

    @abstractmethod
    def reading(self) -> Reading:
        """See :meth:`Device.reading`."""

    @abstractmethod
    def energy_joules(self) -> float | None:
        """See :meth:`Device.energy_joules`."""

    @abstractmethod
    def condition(self) -> Condition:
        """See :meth:`Device.condition`."""

    @abstractmethod
    def changes(self) -> Sequence[Change | Refusal]:
        """See :meth:`Device.changes`."""


class ManagedGpu(Accelerator):
    """A device whose parent side is a vendor's library; without it, the device still measures, and says so.

    ``kind`` is the device name of the records, ``vendor`` who made it.
    """

    kind: str
    vendor: str

    def __init__(self, seen: Seen = UNSEEN) -> None:
        self._seen = seen

    @abstractmethod
    def visible_gpus(self) -> list[Gpu]:
        """One or more GPUs that torch sees, first the one it uses; raises :class:`VendorToolError`."""

    def identity(self) -> Identity:
        gpus, problem = self._found
        seen = self._seen
        if not gpus:
            return Identity(
                self.kind,
                seen.name or f"unknown {self.vendor} GPU",
                gpu_count=seen.count,
                gpu_memory_mib=seen.memory_mib,
                facts={"gpu_problem": problem, **({"gpu_pci": seen.pci} if seen.pci else {})},
            )
        gpu, is_slice = gpus[0], MIG in seen.name
        return Identity(
            self.kind,
            seen.name if is_slice else gpu.name,
            gpu_count=seen.count or len(gpus),
            gpu_memory_mib=seen.memory_mib if is_slice else gpu.memory_mib,
            driver=gpu.driver,
            driver_branch=gpu.driver_branch,
            settings=gpu.settings,
            facts={"gpu_uuid": gpu.uuid, "gpu_pci": gpu.pci_address},
        )

    def clocks(self) -> Mapping[str, str]:
        gpus, _ = self._found
        return gpus[0].clocks() if gpus else {}

    def throttling(self) -> Throttling:
        gpus, _ = self._found
        return gpus[0].throttling() if gpus else Throttling()

    def throttle_counters(self) -> Held | None:
        gpus, _ = self._found
        return gpus[0].throttle_counters() if gpus else None

    def reading(self) -> Reading | None:
        gpus, _ = self._found
        return gpus[0].reading() if gpus else None

    def energy_joules(self) -> float | None:
        gpus, _ = self._found
        return gpus[0].energy_joules() if gpus else None

    def condition(self) -> Condition:
        gpus, problem = self._found
        return gpus[0].condition() if gpus else Condition(problem=problem)

    def changes(self) -> Sequence[Change | Refusal]:
        gpus, problem = self._found
        return gpus[0].changes() if gpus else (Refusal("gpu_clocks", problem),)

    @cached_property
    def _found(self) -> tuple[list[Gpu], str]:
        """The visible GPUs, or none and the reason."""
        try:
            return self.visible_gpus(), ""
        except VendorToolError as error:
            return [], str(error)
