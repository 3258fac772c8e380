"""How long each phase of a step takes: forward, backward, optimizer."""

from __future__ import annotations

import time
from collections import defaultdict
from statistics import median
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torchperf_ci.bench.worker.step import Step
    from torchperf_ci.machine.devices.base import Device

REPEATS = 10


def phase_seconds(device: Device, step: Step, budget: float) -> Mapping[str, float]:
    """Median seconds by phase, synchronised between phases, so their sum exceeds the latency of an async device."""
    times: dict[str, list[float]] = defaultdict(list)
    deadline = time.perf_counter() + budget
    for _ in range(REPEATS):
        device.synchronize()
        last = time.perf_counter()

        def mark(phase: str) -> None:
            nonlocal last
            device.synchronize()
            now = time.perf_counter()
            times[phase].append(now - last)
            last = now

        step.phases(mark)
        if time.perf_counter() > deadline:
            break
    return {phase: median(values) for phase, values in times.items()}
