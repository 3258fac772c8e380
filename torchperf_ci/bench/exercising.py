"""What the doctor is told of an accelerator by the torch that would be measured on it."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from torchperf_ci.bench.client import Worker
from torchperf_ci.bench.process import worker_environment
from torchperf_ci.machine.interference import watched
from torchperf_ci.machine.noise import Exercise, noise_of
from torchperf_ci.machine.placement import quiet_cpus

if TYPE_CHECKING:
    from torchperf_ci.bench.case import Settings

TIMEOUT = 120.0


def exercise(settings: Settings) -> Exercise:
    """Two seconds of work on the device, from where a worker would be; raises :class:`WorkerFailure`."""
    with tempfile.TemporaryDirectory(prefix="torchperf-") as folder:
        scratch, cpus = Path(folder), quiet_cpus(1, settings.hardware)
        environment = worker_environment(settings, scratch / "cache")
        with Worker(settings.python, scratch / "worker.log", environment, cpus) as worker:
            worker.ask("ready", TIMEOUT)
            with watched(settings.hardware, worker.pid) as observed:
                blocks = worker.ask("exercise", TIMEOUT, device=settings.device)
    return Exercise({kind: noise_of(seconds) for kind, seconds in blocks.items()}, observed.get("gpu_sm_mhz"))
