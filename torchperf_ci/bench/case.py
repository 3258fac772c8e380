"""A case (a workload in one configuration) and the settings with which all cases of a run are measured."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

from torchperf_ci.machine.devices import device
from torchperf_ci.machine.devices.interface import UNKNOWN_GPU, Device, TorchGpu

if TYPE_CHECKING:
    from collections.abc import Mapping

AUTO_BATCH = "auto"


@dataclass(frozen=True)
class Case:
    """A workload in one mode, dtype, backend and batch size. ``batch_size`` 0 means not yet determined (``auto``)."""

    workload: str
    mode: str
    dtype: str
    backend: str
    batch_size: int
    task: str = ""
    origin: str = "torch"

    @property
    def key(self) -> str:
        """Identifier that is unique within a run; also the name of the case's record file without its extension."""
        name = f"{self.workload}.{self.mode}.{self.dtype}.{self.backend}.b{self.batch_size or AUTO_BATCH}"
        return re.sub(r"[^A-Za-z0-9_.-]+", "-", name)

    @property
    def cost_key(self) -> str:
        """The key without the batch size, which may differ from device to device."""
        return replace(self, batch_size=0).key.removesuffix(f".b{AUTO_BATCH}")

    @property
    def compiled(self) -> bool:
        return self.backend != "eager"

    def __str__(self) -> str:
        batch = self.batch_size or AUTO_BATCH
        return f"{self.workload} {self.mode} {self.dtype} {self.backend} batch {batch}"


@dataclass(frozen=True)
class Settings:
    """How every case of a run is measured. Times are in seconds; ``target_ci`` is a relative half-width.

    ``files`` are suite files. ``path`` lists folders that the environment under test imports from first, for code
    that is not installed but is in a checkout. ``hip`` and ``seen`` describe the device as torch reports it, if it was
    asked.
    """

    python: str
    device: str
    files: tuple[str, ...] = ()
    path: tuple[str, ...] = ()
    processes: int = 3
    target_ci: float = 0.01
    budget: float = 3.0
    timeout: float = 300.0
    threads: int = 1
    cpus: tuple[int, ...] = ()
    hip: bool = False
    seen: TorchGpu = UNKNOWN_GPU

    @property
    def hardware(self) -> Device:
        """The backend of the device, which measures on it and knows its vendor's tools."""
        return device(self.device, self.hip, self.seen)

    def plan(self) -> Mapping[str, object]:
        """Settings that must be the same to resume an interrupted run. Which CPUs it is pinned to does not matter."""
        return {
            key: list(value) if isinstance(value, tuple) else value
            for key, value in asdict(self).items()
            if key != "cpus"
        }
