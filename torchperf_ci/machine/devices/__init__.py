"""Device backends, one kind per file. They load with only torch and the standard library installed."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from torchperf_ci.machine.devices.interface import Device, TorchGpu

DEVICE_TYPES = {"cuda": "of NVIDIA, and of AMD with ROCm", "xpu": "Intel", "mps": "Apple", "cpu": ""}
"""The torch device types that have a backend here, in the order of preference of ``auto``, and the makers of GPUs."""


def device(torch_type: str, hip: bool = False, seen: TorchGpu | None = None) -> Device:
    """The backend for a torch device type; ``hip`` (``torch.version.hip is not None``) selects ROCm over CUDA.

    ``seen`` is the GPU that torch uses; without it, the vendor's tools find the first GPU that torch should see.
    """
    from torchperf_ci.machine.devices.amd import Rocm  # on use: the command line needs only the names
    from torchperf_ci.machine.devices.cpu import Cpu
    from torchperf_ci.machine.devices.interface import UNKNOWN_GPU
    from torchperf_ci.machine.devices.mps import Mps
    from torchperf_ci.machine.devices.nvidia import Cuda
    from torchperf_ci.machine.devices.xpu import Xpu

    backends: dict[str, Callable[[TorchGpu], Device]] = {
        "cuda": Rocm if hip else Cuda,
        "xpu": Xpu,
        "mps": lambda _seen: Mps(),
        "cpu": lambda _seen: Cpu(),
    }
    return backends[torch_type](seen or UNKNOWN_GPU)


def installed(torch_type: str) -> Device:
    """The backend if torch cannot be asked: for ``cuda``, ROCm's if only its tools find a GPU."""
    if torch_type == "cuda":
        rocm = device("cuda", hip=True)
        if not device("cuda").identity().gpu_count and rocm.identity().gpu_count:
            return rocm
    return device(torch_type)
