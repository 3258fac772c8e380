"""One device backend a file. All of it also loads where there is only torch and the standard library."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torchperf_ci.machine.devices.base import Device

KNOWN = ("cpu", "cuda", "mps", "xpu")


def device(torch_type: str, hip: bool = False) -> Device:
    """The backend for a torch device type; ``hip`` (``torch.version.hip is not None``) tells ROCm from CUDA.

    Raises :class:`ValueError` for a type that has no backend.
    """
    if torch_type == "cuda" and hip:
        from torchperf_ci.machine.devices.rocm import Rocm

        return Rocm()
    if torch_type == "cuda":
        from torchperf_ci.machine.devices.cuda import Cuda

        return Cuda()
    if torch_type == "cpu":
        from torchperf_ci.machine.devices.cpu import Cpu

        return Cpu()
    if torch_type == "mps":
        from torchperf_ci.machine.devices.mps import Mps

        return Mps()
    if torch_type == "xpu":
        from torchperf_ci.machine.devices.xpu import Xpu

        return Xpu()
    msg = f"no backend for device type {torch_type!r}: known are {', '.join(KNOWN)}"
    raise ValueError(msg)
