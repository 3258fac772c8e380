"""AMD GPUs, which torch also calls ``cuda``, through AMD SMI, the library behind amd-smi."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping
from contextlib import redirect_stdout
from dataclasses import replace
from io import StringIO
from typing import Any

from torchperf_ci.machine.devices import interface
from torchperf_ci.machine.devices.accelerator import ManagedGpu, VendorGpu, visible_indices
from torchperf_ci.machine.devices.system_files import program_output

MICROJOULE = 1e-6
MICROWATT = 1e-6
SUSTAINED_SHARE = 0.9
"""Share of the maximum clock to limit to, as the sustainable clock is not published: 1890 of an MI300X's 2100 MHz."""

# Flags of amdsmi_get_violation_status.
VOIDING = {
    "active_prochot_thrm": "processor hot",
    "active_socket_thrm": "socket temperature",
    "active_vr_thrm": "voltage regulator temperature",
    "active_hbm_thrm": "memory temperature",
}
WARNING = {"active_ppt_pwr": "package power limit"}

SOCKET_POWER = ("current_socket_power", "average_socket_power")
"""Keys of amdsmi_get_power_info, in watts: the first for MI300 and later, the second for earlier GPUs."""
NO_WATTS = 0xFFFF
"""Unsupported values are reported as the largest 16-bit or 32-bit number, or as "N/A"."""


class AmdGpu(VendorGpu):
    """One GPU, given by its AMD SMI handle. The library returns "N/A" for values that it cannot read."""

    refusal = "AmdSmiException"

    @property
    def uuid(self) -> str:
        return str(self._read("amdsmi_get_gpu_device_uuid") or "")

    @property
    def serial(self) -> str:
        """The GPU's name in ROCm's variables: ``GPU-`` and the chip's serial number (ROCm, "GPU isolation")."""
        serial = str(self._fact("amdsmi_get_gpu_asic_info", "asic_serial") or "")
        return f"GPU-{serial.lower().removeprefix('0x')}"

    @property
    def pci_address(self) -> str:
        return str(self._read("amdsmi_get_gpu_device_bdf") or "").lower()

    def identity(self) -> interface.DeviceIdentity:
        """The driver's branch is the first two parts of its version: ``6.12`` from ``6.12.12``."""
        driver = str(self._fact("amdsmi_get_gpu_driver_info", "driver_version") or "")
        microwatts = self._fact("amdsmi_get_power_cap_info", "power_cap")
        settings = {
            "gpu_power_limit": f"{microwatts * MICROWATT:g} W" if microwatts else None,
            "gpu_compute_partition": self._read("amdsmi_get_gpu_compute_partition"),
            "gpu_memory_partition": self._read("amdsmi_get_gpu_memory_partition"),
        }
        return interface.DeviceIdentity(
            "rocm",
            str(self._fact("amdsmi_get_gpu_asic_info", "market_name") or "unknown AMD GPU"),
            gpu_memory_mib=int(self._fact("amdsmi_get_gpu_vram_info", "vram_size") or 0),
            driver=driver,
            driver_branch=".".join(driver.split(".")[:2]),
            settings={name: value for name, value in settings.items() if value},
            facts={"gpu_uuid": self.uuid, "gpu_pci": self.pci_address},
        )

    def clocks(self) -> Mapping[str, str]:
        kinds = self._library.AmdSmiClkType
        readings = {
            "gpu_sm_mhz": self._fact("amdsmi_get_clock_info", "clk", kinds.GFX),
            "gpu_sm_max_mhz": self._fact("amdsmi_get_clock_info", "max_clk", kinds.GFX),
            "gpu_memory_mhz": self._fact("amdsmi_get_clock_info", "clk", kinds.MEM),
        }
        return {name: str(mhz) for name, mhz in readings.items() if mhz is not None}

    def throttling(self) -> interface.Throttling:
        status = self._read("amdsmi_get_violation_status")
        if status is None:
            return interface.Throttling(known=False)
        return interface.Throttling(_active(status, VOIDING), _active(status, WARNING))

    def throttle_counters(self) -> interface.ThrottleCounters | None:
        """Each reason's counter grows while it holds, ``acc_counter`` always (MI300 and later)."""
        status = self._read("amdsmi_get_violation_status") or {}
        total = status.get("acc_counter", "N/A")
        if total == "N/A":
            return None
        voiding, power = _accumulated(status, VOIDING), _accumulated(status, WARNING)
        return interface.ThrottleCounters(float(total), voiding, next(iter(power.values()), None))

    def reading(self) -> interface.GpuReading:
        """A reading without throttling reasons: querying those takes the library a tenth of a second."""
        power = self._read("amdsmi_get_power_info") or {}
        readings = [power.get(key, "N/A") for key in SOCKET_POWER]
        watts = [value for value in readings if value != "N/A" and value < NO_WATTS]
        energy = self._read("amdsmi_get_energy_count") or {}
        accumulated = energy.get("energy_accumulator", energy.get("power"))  # the second: before ROCm 6.3
        condition = self.condition()
        return interface.GpuReading(
            time.monotonic(),
            sm_mhz=self._fact("amdsmi_get_clock_info", "clk", self._library.AmdSmiClkType.GFX),
            watts=next(iter(watts), None),
            temperature=condition.temperature,
            joules=accumulated and accumulated * energy["counter_resolution"] * MICROJOULE,
            processes=len(condition.processes or ()),
        )

    def condition(self) -> interface.GpuCondition:
        amdsmi = self._library
        temperature = self._read(
            "amdsmi_get_temp_metric",
            amdsmi.AmdSmiTemperatureType.HOTSPOT,
            amdsmi.AmdSmiTemperatureMetric.CURRENT,
        )
        running = self._read("amdsmi_get_gpu_process_list")
        processes = None if running is None else tuple(process["pid"] for process in running)
        return interface.GpuCondition(temperature=temperature, processes=processes)

    def changes(self) -> tuple[interface.TuningChange, ...]:
        """Performance determinism: a soft limit on the clock, below its maximum."""
        highest = self._fact("amdsmi_get_clock_info", "max_clk", self._library.AmdSmiClkType.GFX)
        if highest is None:
            return ()
        mhz = int(highest * SUSTAINED_SHARE)
        return (
            interface.TuningChange(
                "gpu_clocks",
                f"deterministic at {mhz} MHz",
                ({"kind": "amdsmi_perf_level", "uuid": self.uuid},),
                lambda: self._write("amdsmi_set_gpu_perf_determinism_mode", mhz),
            ),
        )

    def _read(self, function: str, *arguments: object) -> Any:
        try:
            answer = getattr(self._library, function)(self._handle, *arguments)
        except (self._library.AmdSmiException, AttributeError):  # the second: before ROCm 6.3
            return None
        return None if answer == "N/A" else answer

    def _fact(self, function: str, key: str, *arguments: object) -> Any:
        value = (self._read(function, *arguments) or {}).get(key)
        return None if value == "N/A" else value


def _place(pci: str) -> str:
    """The part of a PCI address that torch knows. It omits the function, which numbers the partitions of a card."""
    return pci.rpartition(".")[0]


def _library() -> Any:
    """The ``amdsmi`` module that comes with ROCm, initialised for the lifetime of the process."""
    try:
        with redirect_stdout(StringIO()):
            import amdsmi
    except (ImportError, KeyError, OSError):
        # If the shared library is missing, the package prints that and its loader raises KeyError.
        msg = "the Python package amdsmi of ROCm is not installed, or does not find its library"
        raise interface.VendorToolError(msg) from None
    with interface.vendor_refusals(amdsmi.AmdSmiException):
        amdsmi.amdsmi_init()
    return amdsmi


def _active(status: Mapping[str, Any], names: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(name for key, name in names.items() if status.get(key) is True)


def _accumulated(status: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, float]:
    counters = {name: status.get(key.replace("active_", "acc_"), "N/A") for key, name in names.items()}
    return {name: float(count) for name, count in counters.items() if count != "N/A"}


ROCMINFO_SECONDS = 30.0


class Rocm(ManagedGpu):
    """An AMD GPU: torch's CUDA API on HIP in the worker, AMD SMI in the parent."""

    torch_type = "cuda"
    kind = "rocm"
    vendor = "AMD"

    def visible_gpus(self) -> list[VendorGpu]:
        """The GPU that torch has seen, or else all GPUs that torch should see, starting with the one it should use.

        ``ROCR_VISIBLE_DEVICES`` selects from the machine's GPUs; ``HIP_VISIBLE_DEVICES`` (or its synonym for HIP,
        ``CUDA_VISIBLE_DEVICES``) selects from those.
        """
        amdsmi, pci = _library(), self._seen.pci
        with interface.vendor_refusals(amdsmi.AmdSmiException):
            gpus = [AmdGpu(amdsmi, handle) for handle in amdsmi.amdsmi_get_processor_handles()]
        if same := [gpu for gpu in gpus if pci and _place(gpu.pci_address) == _place(pci)]:
            return [same[0]]
        hip = os.environ.get("HIP_VISIBLE_DEVICES", os.environ.get("CUDA_VISIBLE_DEVICES"))
        for choice in (os.environ.get("ROCR_VISIBLE_DEVICES"), hip):
            names = [gpu.serial if "GPU-" in (choice or "") else gpu.uuid for gpu in gpus]
            gpus = [gpus[index] for index in visible_indices(choice, names)]
        if not gpus:
            msg = "no GPU is visible: look at ROCR_VISIBLE_DEVICES and HIP_VISIBLE_DEVICES"
            raise interface.VendorToolError(msg)
        return [*gpus]

    def identity(self) -> interface.DeviceIdentity:
        """The identity with the name from ``rocminfo``, as the PyTorch benchmark infrastructure has it."""
        identity = super().identity()
        name = marketing_name(program_output("rocminfo", seconds=ROCMINFO_SECONDS), self._seen.name)
        return replace(identity, type=name) if name else identity


def marketing_name(rocminfo: str, seen: str = "") -> str:
    """The name that torch has ``seen``, if ``rocminfo`` prints it; else its last one, because CPUs come first.

    The last one may be that of the graphics in a processor. Empty if there is none.
    """
    names = re.findall(r"^\s*Marketing Name:[ \t]*(\S.*?)\s*$", rocminfo, re.MULTILINE)
    return seen if seen in names else "".join(names[-1:])
