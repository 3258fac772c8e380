"""Intel GPUs."""

from __future__ import annotations

import json
import subprocess
from typing import Any

from torchperf_ci.machine.devices.accelerator import Accelerator
from torchperf_ci.machine.devices.base import Identity

MIB = 2**20
XPU_SMI_SECONDS = 30.0


class Xpu(Accelerator):
    """An Intel GPU: torch's XPU in the worker, ``xpu-smi`` in the parent."""

    torch_type = "xpu"

    def identity(self) -> Identity:
        devices = _xpu_smi("discovery", "-j").get("device_list", [])
        if not devices:
            return Identity("xpu", "unknown Intel GPU", facts={"gpu_problem": "xpu-smi lists no device"})
        first = devices[0]
        details = _xpu_smi("discovery", "-d", str(first.get("device_id", 0)), "-j")
        return Identity(
            "xpu",
            str(first.get("device_name", "unknown Intel GPU")),
            gpu_count=len(devices),
            gpu_memory_mib=int(details.get("memory_physical_size_byte", 0)) // MIB,
            driver=str(details.get("driver_version", "")),
            facts={"gpu_uuid": str(first.get("uuid", ""))},
        )


def _xpu_smi(*arguments: str) -> dict[str, Any]:
    """What Intel's XPU Manager answers as JSON; empty if it is not there."""
    try:
        answer = subprocess.run(
            ["xpu-smi", *arguments],  # noqa: S607  # it has no fixed place; PATH knows it
            capture_output=True,
            text=True,
            timeout=XPU_SMI_SECONDS,
            check=True,
        )
        parsed = json.loads(answer.stdout)
    except (OSError, ValueError, subprocess.SubprocessError):
        return {}
    return parsed if isinstance(parsed, dict) else {}
