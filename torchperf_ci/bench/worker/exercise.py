"""How steady an accelerator is: equal blocks of work that it does itself, and of work that it waits for."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Callable

    from torchperf_ci.machine.devices.base import Device

WARM_UP_SECONDS = 0.5
SECONDS = 0.5
BLOCK_SECONDS = 0.02
SIDE = 4096
LAUNCHES = 100


def exercise(device: Device) -> dict[str, list[float]]:
    """Seconds of each block, by kind of work: products of matrices, and kernels that are shorter than their launch."""
    left = torch.full((SIDE, SIDE), 1 / SIDE, device=device.torch_type, dtype=torch.bfloat16)
    small = torch.zeros(1, device=device.torch_type)

    def launches() -> None:
        for _ in range(LAUNCHES):
            small.add_(1)

    return {
        "matrix products": _blocks(device, lambda: left @ left),
        "tiny kernels": _blocks(device, launches),
    }


def _blocks(device: Device, work: Callable[[], object]) -> list[float]:
    end = time.perf_counter() + WARM_UP_SECONDS
    while time.perf_counter() < end:
        once = device.time_steps(work, 1)[0]
    times = max(1, round(BLOCK_SECONDS / max(once, 1e-6)))

    def block() -> None:
        for _ in range(times):
            work()

    return [device.time_steps(block, 1)[0] for _ in range(round(SECONDS / BLOCK_SECONDS))]
