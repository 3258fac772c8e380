"""Made-up machines: directory trees that look like ``/``, and vendors' libraries without their drivers."""

from __future__ import annotations

import json
import sys
from functools import partial
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING
from unittest.mock import create_autospec

import pynvml
import pytest

from torchperf_ci.machine.devices.interface import TorchGpu

if TYPE_CHECKING:
    from collections.abc import Callable

CPU = "sys/devices/system/cpu"

CPUINFO = """\
processor\t: 0
vendor_id\t: GenuineIntel
model name\t: Intel(R) Xeon(R) Platinum 8488C
microcode\t: 0x2b0005c0
flags\t\t: fpu vme sse2 avx512f

processor\t: 1
model name\t: something else
"""


def plant(root: Path, files: dict[str, str]) -> None:
    """Write the files under ``root``."""
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)


def core(cpu: int, cores: int) -> dict[str, str]:
    """The files of one of ``2 * cores`` CPUs; its sibling is ``cores`` away."""
    home = f"{CPU}/cpu{cpu}"
    first = cpu % cores
    files = {
        "topology/core_id": "0",  # which some platforms say of all CPUs
        "topology/thread_siblings_list": f"{first},{first + cores}",
        "cpufreq/scaling_governor": "powersave",
        "cpufreq/scaling_cur_freq": str(2_000_000 + 1000 * cpu),
        "thermal_throttle/core_throttle_count": "0",
    }
    for number, (state, latency) in enumerate({"POLL": 0, "C1": 2, "C6": 133}.items()):
        files |= {
            f"cpuidle/state{number}/name": state,
            f"cpuidle/state{number}/latency": str(latency),
            f"cpuidle/state{number}/disable": "0",
        }
    return {f"{home}/{name}": content + "\n" for name, content in files.items()}


@pytest.fixture
def server(tmp_path: Path) -> Path:
    """A quiet bare-metal machine with 4 cores, 8 threads and 64 GiB, as it comes out of the box."""
    files = {
        f"{CPU}/online": "0-7\n",
        f"{CPU}/isolated": "\n",
        f"{CPU}/smt/control": "on\n",
        f"{CPU}/intel_pstate/no_turbo": "0\n",
        "sys/devices/system/node/online": "0-1\n",
        "sys/devices/system/node/node0/cpulist": "0-1,4-5\n",
        "sys/devices/system/node/node1/cpulist": "2-3,6-7\n",
        "sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never\n",
        "sys/class/dmi/id/sys_vendor": "Amazon EC2\n",
        "sys/class/dmi/id/product_name": "c7i.metal-24xl\n",
        "sys/fs/cgroup/ci/cpu.max": "max 100000\n",
        "proc/self/cgroup": "0::/ci/job\n",
        "proc/cpuinfo": CPUINFO,
        "proc/loadavg": "0.25 0.10 0.05 1/300 4242\n",
        "proc/meminfo": f"MemTotal: {64 << 20} kB\nMemAvailable: {60 << 20} kB\nSwapTotal: 9 kB\nSwapFree: 9 kB\n",
        "proc/pressure/cpu": "some avg10=1.50 avg60=0.00 avg300=0.00 total=3000000\nfull avg10=0.00 total=0\n",
        "proc/stat": "cpu  100 0 100 790 0 0 0 10 0 0\ncpu0 1 1 1 1 1 1 1 1 1 1\n",
        "proc/sys/kernel/osrelease": "6.8.0-1021-aws\n",
        "proc/sys/kernel/random/boot_id": "6f1c0d5e-0000-4000-8000-000000000001\n",
    }
    for cpu in range(8):
        files |= core(cpu, 4)
    plant(tmp_path, files)
    return tmp_path


@pytest.fixture
def no_vendor_tools(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without any vendor's driver or tool."""
    stand_in = ModuleType("pynvml")
    vars(stand_in).update(vars(pynvml))
    absent = pynvml.NVMLError(pynvml.NVML_ERROR_LIBRARY_NOT_FOUND)
    monkeypatch.setattr(stand_in, "nvmlInit", create_autospec(pynvml.nvmlInit, side_effect=absent))
    monkeypatch.setitem(sys.modules, "pynvml", stand_in)
    monkeypatch.setitem(sys.modules, "amdsmi", None)
    monkeypatch.setenv("PATH", "")


def field_value(field: int, count: int | None) -> SimpleNamespace:
    """As NVML answers; None is a field that this GPU or driver does not have."""
    code = pynvml.NVML_ERROR_NOT_SUPPORTED if count is None else pynvml.NVML_SUCCESS
    return SimpleNamespace(fieldId=field, nvmlReturn=code, value=SimpleNamespace(ullVal=count or 0))


NVIDIA_UUIDS = ("GPU-aaaa1111", "GPU-bbbb2222")


@pytest.fixture
def nvidia(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Two H100s. What is called is the real ``pynvml`` with the functions' own signatures, less the driver."""
    answers = {
        "nvmlInit": lambda: None,
        "nvmlSystemGetDriverVersion": lambda: "580.159.03",
        "nvmlDeviceGetCount": lambda: len(NVIDIA_UUIDS),
        "nvmlDeviceGetHandleByIndex": lambda index: NVIDIA_UUIDS[index],
        "nvmlDeviceGetHandleByUUID": lambda uuid: uuid,
        "nvmlDeviceGetUUID": lambda handle: handle,
        "nvmlDeviceGetName": lambda _: "NVIDIA H100 80GB HBM3",
        "nvmlDeviceGetMemoryInfo": lambda _: SimpleNamespace(total=81559 << 20),
        "nvmlDeviceGetPciInfo": lambda _: SimpleNamespace(domain=0, bus=0x3B, device=0),
        "nvmlDeviceGetClockInfo": lambda _, kind: {pynvml.NVML_CLOCK_SM: 1980, pynvml.NVML_CLOCK_MEM: 2619}[
            kind
        ],
        "nvmlDeviceGetMaxClockInfo": lambda *_: 1980,
        "nvmlDeviceGetCurrentClocksEventReasons": lambda _: 0,
        "nvmlDeviceGetCurrentClocksThrottleReasons": lambda _: 0,
        "nvmlDeviceGetTotalEnergyConsumption": lambda _: 1_234_500,
        "nvmlDeviceGetPersistenceMode": lambda _: pynvml.NVML_FEATURE_DISABLED,
        "nvmlDeviceSetPersistenceMode": lambda *_: None,
        "nvmlDeviceSetGpuLockedClocks": lambda *_: None,
        "nvmlDeviceResetGpuLockedClocks": lambda _: None,
        "nvmlDeviceGetTemperature": lambda *_: 41,
        "nvmlDeviceGetTemperatureThreshold": lambda *_: 87,
        "nvmlDeviceIsMigDeviceHandle": lambda handle: handle.startswith("MIG-"),
        "nvmlDeviceGetDeviceHandleFromMigDeviceHandle": lambda _: NVIDIA_UUIDS[1],
        "nvmlDeviceGetEnforcedPowerLimit": lambda _: 700_000,
        "nvmlDeviceGetApplicationsClock": lambda *_: 1980,
        "nvmlDeviceGetEccMode": lambda _: [1, 1],
        "nvmlDeviceGetMigMode": lambda handle: [int(handle == NVIDIA_UUIDS[1]), 0],
        "nvmlDeviceGetComputeRunningProcesses": lambda _: [SimpleNamespace(pid=4711)],
        "nvmlDeviceGetPowerUsage": lambda _: 72_284,
        "nvmlDeviceGetFieldValues": lambda _, fields: [field_value(field, 0) for field in fields],
    }
    stand_in = ModuleType("pynvml")
    vars(stand_in).update(vars(pynvml))
    for name, answer in answers.items():
        setattr(stand_in, name, create_autospec(getattr(pynvml, name), side_effect=answer))
    monkeypatch.setitem(sys.modules, "pynvml", stand_in)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    return stand_in


class RecordedH100:
    """The readings of a real H100, idle and loaded, through ``pynvml``'s own signatures; see ``h100.json``."""

    def __init__(self) -> None:
        self._told = json.loads((Path(__file__).parent / "devices/h100.json").read_text())
        self.readings = dict(self._told["idle"])
        self.driver: str = self._told["driver"]
        self.seen = TorchGpu(**self._told["torch"])

    def load(self) -> None:
        """From now on as under a matrix product that the power limit holds back."""
        self.readings |= self._told["loaded"]

    def library(self) -> ModuleType:
        stand_in = ModuleType("pynvml")
        vars(stand_in).update(vars(pynvml))
        answers: dict[str, Callable[..., object]] = {
            "nvmlInit": lambda: None,
            "nvmlSystemGetDriverVersion": lambda: self.driver,
            "nvmlDeviceGetCount": lambda: 1,
            "nvmlDeviceGetHandleByIndex": lambda _: "card",
            "nvmlDeviceGetHandleByUUID": self._by_uuid,
        }
        for name in {call.partition(" ")[0] for call in self.readings}:
            answers[name] = partial(self._answer, name)
        for name, answer in answers.items():
            setattr(stand_in, name, create_autospec(getattr(pynvml, name), side_effect=answer))
        return stand_in

    def _by_uuid(self, uuid: str) -> str:
        if uuid != self.readings["nvmlDeviceGetUUID"]:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_FOUND)
        return "card"

    def _answer(self, name: str, _handle: str, *arguments: int) -> object:
        answer = self.readings[" ".join([name, *map(str, arguments)])]
        if isinstance(answer, dict) and "error" in answer:
            raise getattr(pynvml, f"NVMLError_{answer['error']}")
        return _as_object(answer)


def _as_object(answer: object) -> object:
    """A structure of the library's, where the recording has a mapping."""
    if isinstance(answer, dict):
        return SimpleNamespace(**answer)
    return [_as_object(one) for one in answer] if isinstance(answer, list) else answer


@pytest.fixture
def h100(monkeypatch: pytest.MonkeyPatch) -> RecordedH100:
    """One real H100, as it answered."""
    card = RecordedH100()
    monkeypatch.setitem(sys.modules, "pynvml", card.library())
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    return card


AMD_UUIDS = ("2aff74a1-0000-1000-80f5-000000000000", "b5ff74a1-0000-1000-80f5-000000000001")


class AmdSmiStandIn(ModuleType):
    """Two MI300Xs, by the answers and signatures that the library's documentation gives."""

    class AmdSmiException(Exception):  # noqa: N818  # the library's name
        pass

    AmdSmiClkType = SimpleNamespace(GFX="gfx", MEM="mem")
    AmdSmiTemperatureType = SimpleNamespace(HOTSPOT="hotspot")
    AmdSmiTemperatureMetric = SimpleNamespace(CURRENT="current")
    AmdSmiDevPerfLevel = {"AUTO": 0, "DETERMINISM": 8}  # noqa: RUF012  # as an enum it is looked up by name

    def __init__(self) -> None:
        super().__init__("amdsmi")
        self.levels = dict.fromkeys(AMD_UUIDS, "AUTO")
        self.violations = {"active_prochot_thrm": False, "active_socket_thrm": "N/A", "active_ppt_pwr": False}
        self.power = {"current_socket_power": 742, "average_socket_power": "N/A"}
        self.energy = {"energy_accumulator": 2_000_000, "counter_resolution": 15.3, "timestamp": 1}
        self.allowed = True
        self.partition = "SPX"

    def amdsmi_init(self, flag=None):
        pass

    def amdsmi_get_processor_handles(self):
        return list(AMD_UUIDS)

    def amdsmi_get_gpu_device_uuid(self, processor_handle):
        return processor_handle

    def amdsmi_get_gpu_device_bdf(self, processor_handle):
        return f"0000:C{AMD_UUIDS.index(processor_handle)}:00.0"

    def amdsmi_get_gpu_asic_info(self, processor_handle):
        serial = f"0x8A2F00000000000{AMD_UUIDS.index(processor_handle)}"
        return {"market_name": "AMD Instinct MI300X", "asic_serial": serial}

    def amdsmi_get_power_cap_info(self, processor_handle):
        return {"power_cap": 750_000_000}

    def amdsmi_get_gpu_compute_partition(self, processor_handle):
        return self.partition

    def amdsmi_get_gpu_memory_partition(self, processor_handle):
        return "NPS1"

    def amdsmi_get_gpu_driver_info(self, processor_handle):
        return {"driver_version": "6.12.12"}

    def amdsmi_get_gpu_vram_info(self, processor_handle):
        return {"vram_size": 196592}

    def amdsmi_get_clock_info(self, processor_handle, clock_type):
        return {"clk": 132, "max_clk": 2100} if clock_type == "gfx" else {"clk": "N/A", "max_clk": 1300}

    def amdsmi_get_violation_status(self, processor_handle):
        return self.violations

    def amdsmi_get_power_info(self, processor_handle):
        return self.power

    def amdsmi_get_energy_count(self, processor_handle):
        return self.energy

    def amdsmi_get_temp_metric(self, processor_handle, sensor_type, metric):
        return 55

    def amdsmi_get_gpu_process_list(self, processor_handle):
        return [{"pid": 99}]

    def amdsmi_get_gpu_perf_level(self, processor_handle):
        return f"AMDSMI_DEV_PERF_LEVEL_{self.levels[processor_handle]}"

    def amdsmi_set_gpu_perf_level(self, processor_handle, perf_level):
        names = {value: name for name, value in self.AmdSmiDevPerfLevel.items()}
        self.levels[processor_handle] = names[perf_level]

    def amdsmi_set_gpu_perf_determinism_mode(self, processor_handle, clkvalue):
        if not self.allowed:
            msg = "Error code:\n\t10 | AMDSMI_STATUS_NO_PERM - Permission Denied"
            raise self.AmdSmiException(msg)
        self.levels[processor_handle] = "DETERMINISM"


@pytest.fixture
def amdsmi(monkeypatch: pytest.MonkeyPatch) -> AmdSmiStandIn:
    stand_in = AmdSmiStandIn()
    monkeypatch.setitem(sys.modules, "amdsmi", stand_in)
    for name in ("ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"):
        monkeypatch.delenv(name, raising=False)
    return stand_in
