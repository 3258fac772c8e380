"""The host's processor."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from dataclasses import dataclass
from pathlib import Path

from torchperf_ci.machine.devices.system_files import CPUS, online_cpus, text

COMMAND_SECONDS = 10.0
DECORATION = ("Intel(R)", "(R)", "(TM)", "CPU", "Processor")


@dataclass(frozen=True)
class Processor:
    """``cores`` are physical and switched on, ``threads`` are the CPUs that the system schedules on."""

    model: str
    cores: int
    threads: int
    microcode: str = ""

    @property
    def type(self) -> str:
        """``Xeon_Platinum_8488C_48c``, as the PyTorch benchmark infrastructure writes it.

        It does so on x86 only; elsewhere it keeps the vendor alone, which would mix unlike machines.
        """
        name = self.model
        for word in DECORATION:
            name = name.replace(word, "")
        return f"{'_'.join(name.split())}_{self.cores}c"


def processor(root: Path = Path("/")) -> Processor:
    """Read the processor of this machine."""
    if platform.system() == "Darwin":
        return _apple()
    info = cpuinfo(root)
    threads = online_cpus(root)
    return Processor(
        info.get("model name") or _lscpu_model(root) or platform.machine(),
        len({_core(root, cpu) for cpu in threads}) or os.cpu_count() or 1,
        len(threads) or os.cpu_count() or 1,
        info.get("microcode", ""),
    )


def cpuinfo(root: Path) -> dict[str, str]:
    """The first processor of ``/proc/cpuinfo``."""
    first = text(root / "proc/cpuinfo").split("\n\n")[0]
    pairs = (line.partition(":") for line in first.splitlines())
    return {key.strip(): value.strip() for key, _, value in pairs}


def _core(root: Path, cpu: int) -> tuple[str, str]:
    topology = root / CPUS / f"cpu{cpu}" / "topology"
    return text(topology / "physical_package_id"), text(topology / "core_id")


def _lscpu_model(root: Path) -> str:
    """The model's name where the kernel gives numbers only (Arm): ``lscpu`` has the table of names."""
    output = _output(["/usr/bin/lscpu", "--json", "--sysroot", str(root)])
    rows = json.loads(output)["lscpu"] if output else []
    names = [str(row["data"]) for row in _flat(rows) if row["field"] == "Model name:"]
    return names[0] if names and names[0] != "-" else ""


def _flat(rows: list[dict[str, object]]) -> list[dict[str, object]]:
    """Newer versions nest the model below its vendor."""
    return [
        row
        for parent in rows
        for row in (parent, *_flat(parent.get("children", [])))  # type: ignore[arg-type]
    ]


def _apple() -> Processor:
    return Processor(
        sysctl("machdep.cpu.brand_string") or platform.machine(),
        int(sysctl("hw.physicalcpu") or 1),
        int(sysctl("hw.logicalcpu") or 1),
    )


def sysctl(name: str) -> str:
    """A value of macOS's kernel; empty if there is none."""
    return _output(["/usr/sbin/sysctl", "-n", name]).strip()


def _output(command: list[str]) -> str:
    try:
        return subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=COMMAND_SECONDS,
            check=True,
            env={**os.environ, "LC_ALL": "C"},
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return ""
