"""Intel GPUs."""

from __future__ import annotations

import json
from typing import Any

from torchperf_ci.machine.devices.accelerator import Accelerator
from torchperf_ci.machine.devices.interface import DeviceIdentity
from torchperf_ci.machine.devices.system_files import program_output

MIB = 2**20
XPU_SMI_SECONDS = 30.0


class Xpu(Accelerator):
    """An Intel GPU: torch's XPU in the worker, ``xpu-smi`` in the parent."""

    torch_type = "xpu"

    def identity(self) -> DeviceIdentity:
        """The identity as torch sees it, completed by ``xpu-smi``, which does not respect ``ZE_AFFINITY_MASK``."""
        seen, devices = self._seen, _xpu_smi("discovery", "-j").get("device_list") or []
        same = [device for device in devices if device.get("device_name") == seen.name]
        first: Any = next(iter([*same, *devices]), {})
        details = _xpu_smi("discovery", "-d", str(first.get("device_id", 0)), "-j") if first else {}
        uuid, driver = str(first.get("uuid", "")), str(details.get("driver_version", ""))
        size = str(details.get("memory_physical_size_byte"))  # may be "N/A"
        return DeviceIdentity(
            "xpu",
            seen.name or str(first.get("device_name", "unknown Intel GPU")),
            gpu_count=seen.count or len(devices),
            gpu_memory_mib=seen.memory_mib or int(size if size.isdigit() else 0) // MIB,
            driver=driver,
            driver_branch=driver,
            facts={"gpu_uuid": uuid} if first else {"gpu_problem": "xpu-smi lists no device"},
        )


def _xpu_smi(*arguments: str) -> dict[str, Any]:
    """The JSON output of Intel's XPU Manager; empty if it is not installed."""
    try:
        parsed = json.loads(program_output("xpu-smi", *arguments, seconds=XPU_SMI_SECONDS))
    except ValueError:
        return {}
    return parsed if isinstance(parsed, dict) else {}
