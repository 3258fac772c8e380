"""The host's own processor."""

from __future__ import annotations

import itertools
import platform
import time
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

from torchperf_ci.machine.devices import host_memory
from torchperf_ci.machine.devices.base import Device, Identity
from torchperf_ci.machine.devices.processor import processor
from torchperf_ci.machine.devices.rapl import Rapl
from torchperf_ci.machine.devices.system_files import cpu_files, number

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

KHZ_PER_MHZ = 1000
ARM = ("aarch64", "arm64")


class Cpu(Device):
    """A CPU. Its work is done when the call returns, and its memory is the process's."""

    torch_type = "cpu"

    def __init__(self, root: Path = Path("/")) -> None:
        self._root = root
        self._rapl = Rapl(root)

    def synchronize(self) -> None:
        """Nothing to wait for."""

    def memory_allocated(self) -> int:
        return host_memory.allocated()

    def reset_peak_memory(self) -> None:
        host_memory.reset_peak()

    def peak_memory(self) -> int:
        return host_memory.peak()

    def time_steps(self, step: Callable[[], object], count: int) -> list[float]:
        """Seconds of each step."""
        clock = time.perf_counter
        moments = [clock()]
        for _ in range(count):
            step()
            moments.append(clock())
        return [end - start for start, end in itertools.pairwise(moments)]

    def identity(self) -> Identity:
        name = "arm64-cpu" if platform.machine() in ARM else "cpu"
        return Identity(name, processor(self._root).type)

    def clocks(self) -> Mapping[str, str]:
        """The mean over the CPUs, where frequency scaling tells it."""
        khz = [number(path) for path in cpu_files(self._root, "cpufreq/scaling_cur_freq")]
        known = [value for value in khz if value is not None]
        return {"cpu_mhz": f"{fmean(known) / KHZ_PER_MHZ:.0f}"} if known else {}

    def energy_joules(self) -> float | None:
        return self._rapl.joules()
