"""NVIDIA GPUs."""

from __future__ import annotations

from torchperf_ci.machine.devices import nvml
from torchperf_ci.machine.devices.gpu import Gpu, ManagedGpu


class Cuda(ManagedGpu):
    """An NVIDIA GPU: torch's CUDA in the worker, NVML in the parent."""

    torch_type = "cuda"
    kind = "cuda"
    vendor = "NVIDIA"

    def visible_gpus(self) -> list[Gpu]:
        return nvml.visible_gpus(self._seen)
