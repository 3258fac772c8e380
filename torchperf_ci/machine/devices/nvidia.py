"""NVIDIA GPUs through NVML, the library behind nvidia-smi."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from typing import Any

from torchperf_ci.machine.devices import interface
from torchperf_ci.machine.devices.accelerator import ManagedGpu, VendorGpu, visible_indices

MIB = 2**20
MILLIJOULE = 1e-3
MILLIWATT = 1e-3
NANOSECOND = 1e-9

# nvmlClocksEventReasons of nvml.h.
VOIDING = {
    0x08: "hardware slowdown",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "power brake slowdown",
}
WARNING = {0x04: "software power cap"}

# Fields of nvml.h (NVML_FI_DEV_…) that count nanoseconds. An H100 updates them every 0.1 s.
POWER_COUNTER = 74  # PERF_POLICY_POWER
THERMAL_COUNTER = 75  # PERF_POLICY_THERMAL, for drivers without the counters of thermal slowdown below
VOIDING_COUNTERS = {
    269: "software thermal slowdown",  # CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN
    270: "hardware thermal slowdown",  # CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN
    271: "power brake slowdown",  # CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN
}


class NvidiaGpu(VendorGpu):
    """One GPU, given by its NVML handle."""

    refusal = "NVMLError"

    @property
    def uuid(self) -> str:
        return str(self._read("nvmlDeviceGetUUID") or "")

    def identity(self) -> interface.DeviceIdentity:
        """The driver's branch is ``580`` of ``580.159.04``: NVIDIA's releases within a branch only fix bugs."""
        try:
            driver = str(self._library.nvmlSystemGetDriverVersion())
        except self._library.NVMLError:
            driver = ""
        pci, memory = self._read("nvmlDeviceGetPciInfo"), self._read("nvmlDeviceGetMemoryInfo")
        address = f"{pci.domain:04x}:{pci.bus:02x}:{pci.device:02x}.0" if pci else ""
        return interface.DeviceIdentity(
            "cuda",
            str(self._read("nvmlDeviceGetName") or "unknown NVIDIA GPU"),
            gpu_memory_mib=int(memory.total) // MIB if memory else 0,
            driver=driver,
            driver_branch=driver.partition(".")[0],
            settings=self.settings(),
            facts={"gpu_uuid": self.uuid, "gpu_pci": address},
        )

    def settings(self) -> Mapping[str, str]:
        """The GPU's settings; a MIG slice has those of its card."""
        if self._read("nvmlDeviceIsMigDeviceHandle"):
            card = self._library.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(self._handle)
            return NvidiaGpu(self._library, card).settings()
        milliwatts = self._read("nvmlDeviceGetEnforcedPowerLimit")
        kinds = (self._library.NVML_CLOCK_SM, self._library.NVML_CLOCK_MEM)
        clocks = [self._read("nvmlDeviceGetApplicationsClock", kind) for kind in kinds]
        # Each is a pair: the current mode, and the mode after the next reboot.
        modes = {"gpu_ecc": self._read("nvmlDeviceGetEccMode"), "gpu_mig": self._read("nvmlDeviceGetMigMode")}
        return {
            **({"gpu_power_limit": f"{milliwatts * MILLIWATT:g} W"} if milliwatts else {}),
            **({} if None in clocks else {"gpu_application_clocks": "{}, {} MHz".format(*clocks)}),
            **{name: "on" if mode[0] else "off" for name, mode in modes.items() if mode},
        }

    def clocks(self) -> Mapping[str, str]:
        nvml = self._library
        readings = {
            "gpu_sm_mhz": self._read("nvmlDeviceGetClockInfo", nvml.NVML_CLOCK_SM),
            "gpu_sm_max_mhz": self._read("nvmlDeviceGetMaxClockInfo", nvml.NVML_CLOCK_SM),
            "gpu_memory_mhz": self._read("nvmlDeviceGetClockInfo", nvml.NVML_CLOCK_MEM),
        }
        return {name: str(mhz) for name, mhz in readings.items() if mhz is not None}

    def throttling(self) -> interface.Throttling:
        mask = self._read("nvmlDeviceGetCurrentClocksEventReasons")
        if mask is None:  # the function's name before R535
            mask = self._read("nvmlDeviceGetCurrentClocksThrottleReasons")
        if mask is None:
            return interface.Throttling(known=False)
        return interface.Throttling(_reasons(mask, VOIDING), _reasons(mask, WARNING))

    def throttle_counters(self) -> interface.ThrottleCounters | None:
        counters = self._counters(POWER_COUNTER, THERMAL_COUNTER, *VOIDING_COUNTERS)
        if not counters:
            return None
        voiding = {name: counters[field] for field, name in VOIDING_COUNTERS.items() if field in counters}
        if not voiding and THERMAL_COUNTER in counters:
            voiding = {"thermal slowdown": counters[THERMAL_COUNTER]}
        return interface.ThrottleCounters(time.monotonic(), voiding, counters.get(POWER_COUNTER))

    def reading(self) -> interface.GpuReading:
        nvml = self._library
        milliwatts = self._read("nvmlDeviceGetPowerUsage")
        millijoules = self._read("nvmlDeviceGetTotalEnergyConsumption")
        return interface.GpuReading(
            time.monotonic(),
            sm_mhz=self._read("nvmlDeviceGetClockInfo", nvml.NVML_CLOCK_SM),
            watts=None if milliwatts is None else milliwatts * MILLIWATT,
            temperature=self._read("nvmlDeviceGetTemperature", nvml.NVML_TEMPERATURE_GPU),
            joules=None if millijoules is None else millijoules * MILLIJOULE,
            processes=len(self._read("nvmlDeviceGetComputeRunningProcesses") or ()),
            throttling=self.throttling(),
        )

    def condition(self) -> interface.GpuCondition:
        nvml = self._library
        persistence = self._read("nvmlDeviceGetPersistenceMode")
        temperature = self._read("nvmlDeviceGetTemperature", nvml.NVML_TEMPERATURE_GPU)
        running = self._read("nvmlDeviceGetComputeRunningProcesses")
        return interface.GpuCondition(
            temperature=temperature,
            slowdown_temperature=self._slowdown_temperature(temperature),
            persistence=None if persistence is None else bool(persistence),
            processes=None if running is None else tuple(process.pid for process in running),
        )

    def _slowdown_temperature(self, temperature: int | None) -> int | None:
        """The temperature at which the GPU slows down; newer GPUs may report only the margin to it (NVML reference)."""
        kind = self._library.NVML_TEMPERATURE_THRESHOLD_SLOWDOWN
        limit: int | None = self._read("nvmlDeviceGetTemperatureThreshold", kind)
        if limit is None and temperature is not None:
            margin = self._read("nvmlDeviceGetMarginTemperature")
            limit = None if margin is None else temperature + margin
        return limit

    def changes(self) -> tuple[interface.TuningChange, ...]:
        """Keep the driver loaded, and lock the clock to the base clock, which the power limit can sustain."""
        nvml = self._library
        base = nvml.NVML_CLOCK_LIMIT_ID_TDP
        return (
            interface.TuningChange(
                "gpu_persistence",
                "on",
                ({"kind": "nvml_persistence", "uuid": self.uuid},),
                lambda: self._write("nvmlDeviceSetPersistenceMode", nvml.NVML_FEATURE_ENABLED),
            ),
            interface.TuningChange(
                "gpu_clocks",
                "locked to the base clock",
                ({"kind": "nvml_clocks", "uuid": self.uuid},),
                lambda: self._write("nvmlDeviceSetGpuLockedClocks", base, base),
            ),
        )

    def _counters(self, *fields: int) -> dict[int, float]:
        """The counters that this GPU has, in seconds, by field."""
        values = self._read("nvmlDeviceGetFieldValues", list(fields)) or ()
        return {
            value.fieldId: value.value.ullVal * NANOSECOND
            for value in values
            if value.nvmlReturn == self._library.NVML_SUCCESS
        }

    def _read(self, function: str, *arguments: object) -> Any:
        try:
            return getattr(self._library, function)(self._handle, *arguments)
        except (self._library.NVMLError, self._library.NVMLLibraryMismatchError):  # the second: before R510
            return None


def _by_uuid(nvml: Any, uuid: str) -> NvidiaGpu | None:
    """The GPU with torch's UUID, which lacks the prefix that distinguishes a card from a MIG slice."""
    for prefix in ("GPU-", "MIG-") if uuid else ():
        try:
            return NvidiaGpu(nvml, nvml.nvmlDeviceGetHandleByUUID(prefix + uuid))
        except nvml.NVMLError:
            continue
    return None


def _handles(nvml: Any) -> Iterator[Any]:
    """Yield the handles of all cards that this process may open; CUDA ignores the others, too."""
    for index in range(nvml.nvmlDeviceGetCount()):
        try:
            yield nvml.nvmlDeviceGetHandleByIndex(index)
        except nvml.NVMLError as error:
            if error.value != nvml.NVML_ERROR_NO_PERMISSION:
                raise


def _library() -> Any:
    """The ``pynvml`` module, initialised for the lifetime of the process."""
    try:
        import pynvml
    except ImportError:
        raise interface.VendorToolError("the Python package nvidia-ml-py is not installed") from None
    with interface.vendor_refusals(pynvml.NVMLError):
        pynvml.nvmlInit()
    return pynvml


def _reasons(mask: int, names: Mapping[int, str]) -> tuple[str, ...]:
    return tuple(name for bit, name in names.items() if mask & bit)


class Cuda(ManagedGpu):
    """An NVIDIA GPU: torch's CUDA in the worker, NVML in the parent."""

    torch_type = "cuda"
    kind = "cuda"
    vendor = "NVIDIA"

    def visible_gpus(self) -> list[VendorGpu]:
        """The GPU that torch has seen, or else all GPUs that torch should see, starting with the one it should use.

        NVML counts in PCI order; CUDA counts the fastest first unless ``CUDA_DEVICE_ORDER=PCI_BUS_ID``. The two differ
        only if a machine has GPUs of different models. Of several MIG instances, CUDA sees only the first in the list.
        """
        nvml = _library()
        if found := _by_uuid(nvml, self._seen.uuid):
            return [found]
        choice = os.environ.get("CUDA_VISIBLE_DEVICES")
        with interface.vendor_refusals(nvml.NVMLError):
            if choice is not None and choice.startswith("MIG-"):
                return [NvidiaGpu(nvml, nvml.nvmlDeviceGetHandleByUUID(choice.split(",")[0].strip()))]
            gpus = [NvidiaGpu(nvml, handle) for handle in _handles(nvml)]
        chosen = visible_indices(choice, [gpu.uuid for gpu in gpus])
        if not chosen:
            msg = f"NVML lists {len(gpus)} GPUs, none is visible under CUDA_VISIBLE_DEVICES={choice}"
            raise interface.VendorToolError(msg)
        return [gpus[index] for index in chosen]
