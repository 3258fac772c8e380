"""AMD GPUs, which torch also calls ``cuda``."""

from __future__ import annotations

import re
import subprocess
from dataclasses import replace
from typing import TYPE_CHECKING

from torchperf_ci.machine.devices import amdsmi
from torchperf_ci.machine.devices.gpu import Gpu, ManagedGpu

if TYPE_CHECKING:
    from torchperf_ci.machine.devices.base import Identity

ROCMINFO_SECONDS = 30.0


class Rocm(ManagedGpu):
    """An AMD GPU: torch's CUDA API on HIP in the worker, AMD SMI in the parent."""

    torch_type = "cuda"
    kind = "rocm"
    vendor = "AMD"

    def visible_gpus(self) -> list[Gpu]:
        return amdsmi.visible_gpus(self._seen)

    def identity(self) -> Identity:
        """Named as the PyTorch benchmark infrastructure does, after ``rocminfo``."""
        identity = super().identity()
        name = marketing_name(_rocminfo())
        return replace(identity, type=name) if name else identity


def marketing_name(rocminfo: str) -> str:
    """The last marketing name that ``rocminfo`` prints: CPUs come first. Empty if there is none."""
    names = re.findall(r"^\s*Marketing Name:[ \t]*(\S.*?)\s*$", rocminfo, re.MULTILINE)
    return names[-1] if names else ""


def _rocminfo() -> str:
    try:
        return subprocess.run(
            ["rocminfo"],  # noqa: S607  # it has no fixed place; PATH knows it
            capture_output=True,
            text=True,
            timeout=ROCMINFO_SECONDS,
            check=True,
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return ""
