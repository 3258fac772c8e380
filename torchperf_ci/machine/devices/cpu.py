"""The host's CPU as a device: its model, cores and clock."""

from __future__ import annotations

import itertools
import os
import platform
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from torchperf_ci.machine.devices import system_files
from torchperf_ci.machine.devices.interface import Device, DeviceIdentity, VendorReadings

DECORATION = ("Intel(R)", "(R)", "(TM)", "CPU", "Processor")


@dataclass(frozen=True)
class Processor:
    """``cores`` counts physical cores that are online, ``threads`` the CPUs that the system schedules on."""

    model: str
    cores: int
    threads: int
    microcode: str = ""

    @property
    def type(self) -> str:
        """The model and number of cores, such as ``Xeon_Platinum_8488C_48c``.

        This is the format of the PyTorch benchmark infrastructure on x86. On other CPUs it records only the vendor,
        which would mix different machines.
        """
        name = self.model
        for word in DECORATION:
            name = name.replace(word, "")
        return f"{'_'.join(name.split())}_{self.cores}c"


def read_processor(root: Path = Path("/")) -> Processor:
    """Read the processor of this machine."""
    if platform.system() == "Darwin":
        return _apple()
    info = cpuinfo(root)
    threads = system_files.online_cpus(root)
    return Processor(
        info.get("model name") or _lscpu_model(root) or _arm_part(info) or platform.machine(),
        len({system_files.siblings(root, cpu) for cpu in threads}) or os.cpu_count() or 1,
        len(threads) or os.cpu_count() or 1,
        info.get("microcode", ""),
    )


def cpuinfo(root: Path) -> dict[str, str]:
    """The fields of the first processor in ``/proc/cpuinfo``."""
    first = system_files.text(root / "proc/cpuinfo").split("\n\n")[0]
    pairs = (line.partition(":") for line in first.splitlines())
    return {key.strip(): value.strip() for key, _, value in pairs}


def _lscpu_model(root: Path) -> str:
    """The model name from ``lscpu``, for CPUs where the kernel reports only numbers (Arm)."""
    output = system_files.program_output("/usr/bin/lscpu", "--sysroot", str(root))
    names = re.findall(r"^ *Model name: *(\S.*)$", output, re.MULTILINE)  # newer versions indent it
    return names[0] if names and names[0] != "-" else ""


def _arm_part(info: Mapping[str, str]) -> str:
    """The kernel's numbers for an Arm CPU, such as ``Arm 0x41 0xd40``; a container may lack ``lscpu``."""
    known = [info[key] for key in ("CPU implementer", "CPU part") if key in info]
    return " ".join(["Arm", *known]) if known else ""


def _apple() -> Processor:
    return Processor(
        sysctl("machdep.cpu.brand_string") or platform.machine(),
        int(sysctl("hw.physicalcpu") or 1),
        int(sysctl("hw.logicalcpu") or 1),
    )


def sysctl(name: str) -> str:
    """A value from macOS's ``sysctl``; empty if it has none."""
    return system_files.program_output("/usr/sbin/sysctl", "-n", name).strip()


KHZ_PER_MHZ = 1000
ARM = ("aarch64", "arm64")


class Cpu(Device):
    """A CPU. Its work is finished when the call returns, and its memory is that of the process."""

    torch_type = "cpu"

    def __init__(self, root: Path = Path("/")) -> None:
        self._root = root

    def synchronize(self) -> None:
        """Do nothing: CPU work is finished when the call returns."""

    def memory_allocated(self) -> int:
        return system_files.resident_memory()

    def reset_peak_memory(self) -> None:
        system_files.reset_peak_memory()

    def peak_memory(self) -> int:
        return system_files.peak_memory()

    def time_steps(self, step: Callable[[], object], count: int) -> list[float]:
        """Seconds of each step."""
        clock = time.perf_counter
        moments = [clock()]
        for _ in range(count):
            step()
            moments.append(clock())
        return [end - start for start, end in itertools.pairwise(moments)]

    def identity(self) -> DeviceIdentity:
        name = "arm64-cpu" if platform.machine() in ARM else "cpu"
        return DeviceIdentity(name, read_processor(self._root).type)

    @property
    def tools(self) -> VendorReadings:
        return CpuReadings(self._root)


@dataclass(frozen=True)
class CpuReadings(VendorReadings):
    """What the kernel reports about the CPUs."""

    root: Path

    def clocks(self) -> Mapping[str, str]:
        """The mean clock of the CPUs, if frequency scaling reports it."""
        khz = [
            system_files.number(path)
            for path in system_files.cpu_files(self.root, "cpufreq/scaling_cur_freq")
        ]
        known = [value for value in khz if value is not None]
        return {"cpu_mhz": f"{fmean(known) / KHZ_PER_MHZ:.0f}"} if known else {}
