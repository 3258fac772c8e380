"""What the checks look at, gathered once."""

from __future__ import annotations

import itertools
import os
import shutil
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from torchperf_ci.machine.compilers import compilers
from torchperf_ci.machine.devices.base import Condition, Throttling
from torchperf_ci.machine.host import Host, read_host
from torchperf_ci.machine.noise import Exercise, Noise, measure_noise

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torchperf_ci.machine.devices.base import Device

CLOCK_READS = 1000


@dataclass(frozen=True)
class Facts:
    """``disk_free``: bytes where inductor's cache lies. ``clock_step``: seconds. ``condition``: of a GPU."""

    host: Host
    noise: Noise
    condition: Condition | None = None
    throttling: Throttling = field(default_factory=Throttling)
    compilers: Mapping[str, str] | None = None
    disk_free: int = 0
    clock_step: float = 0.0
    administrator: bool = False
    exercise: Exercise | None = None


def gather(device: Device, root: Path = Path("/"), exercise: Exercise | None = None) -> Facts:
    """Look at this machine and ``device``; takes about a second, which is spent on measuring noise."""
    cache = Path(os.environ.get("TORCHINDUCTOR_CACHE_DIR", tempfile.gettempdir()))
    existing = next(path for path in (cache, *cache.absolute().parents) if path.exists())
    host = read_host(root)  # before the noise measurement becomes the load that it reports
    return Facts(
        host=host,
        noise=measure_noise(),
        condition=device.condition(),
        throttling=device.throttling(),
        compilers=compilers(),
        disk_free=shutil.disk_usage(existing).free,
        clock_step=_clock_step(),
        administrator=os.geteuid() == 0,
        exercise=exercise,
    )


def _clock_step() -> float:
    """The smallest difference that two readings of the clock show, in seconds."""
    readings = [time.perf_counter() for _ in range(CLOCK_READS)]
    steps = (b - a for a, b in itertools.pairwise(readings))
    return min((step for step in steps if step > 0), default=time.get_clock_info("perf_counter").resolution)
