"""One thing to measure, and how."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from torchperf_ci.machine.devices import device
from torchperf_ci.machine.devices.interface import UNKNOWN_GPU, Device, TorchGpu

if TYPE_CHECKING:
    from collections.abc import Mapping

AUTO_BATCH = "auto"


@dataclass(frozen=True)
class Case:
    """A workload in one mode, dtype, backend and batch size. ``batch_size`` 0 is still to be found (``auto``)."""

    workload: str
    mode: str
    dtype: str
    backend: str
    batch_size: int
    task: str = ""
    origin: str = "torch"

    @property
    def key(self) -> str:
        """Unique within a run; also the name of the case's record file, less the ending."""
        name = f"{self.workload}.{self.mode}.{self.dtype}.{self.backend}.b{self.batch_size or AUTO_BATCH}"
        return re.sub(r"[^A-Za-z0-9_.-]+", "-", name)

    @property
    def compiled(self) -> bool:
        return self.backend != "eager"

    def __str__(self) -> str:
        batch = self.batch_size or AUTO_BATCH
        return f"{self.workload} {self.mode} {self.dtype} {self.backend} batch {batch}"


@dataclass(frozen=True)
class Settings:
    """How every case of a run is measured. Times in seconds; ``target_ci`` is a relative half-width.

    ``files`` are suite files, ``path`` the folders that come first where the environment under test imports from: code
    under test that is not installed, but lies in a checkout. ``hip`` and ``seen`` are what torch said of the device,
    where it was asked.
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
        """What measures on the device, and knows its vendor's tools."""
        return device(self.device, self.hip, self.seen)

    def plan(self) -> Mapping[str, object]:
        """What must be the same for an interrupted run to be continued: on which of like CPUs does not matter."""
        return {
            key: list(value) if isinstance(value, tuple) else value
            for key, value in asdict(self).items()
            if key != "cpus"
        }
