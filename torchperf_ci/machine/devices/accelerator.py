"""What the accelerators share on torch's side: its neutral memory and event API."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchperf_ci.machine.devices.base import Device

if TYPE_CHECKING:
    from collections.abc import Callable

MILLISECOND = 1e-3


class Accelerator(Device):
    """A device that ``torch.accelerator`` knows, with events that time reliably."""

    def synchronize(self) -> None:
        import torch

        torch.accelerator.synchronize()

    def memory_allocated(self) -> int:
        import torch

        return int(torch.accelerator.memory_allocated())

    def reset_peak_memory(self) -> None:
        import torch

        torch.accelerator.reset_peak_memory_stats()

    def peak_memory(self) -> int:
        import torch

        return int(torch.accelerator.max_memory_allocated())

    def time_steps(self, step: Callable[[], object], count: int) -> list[float]:
        """Seconds of each step on the device's own clock: events made beforehand, one wait at the end."""
        import torch

        pairs = [
            tuple(torch.Event(self.torch_type, enable_timing=True) for _ in range(2)) for _ in range(count)
        ]
        self.synchronize()
        for start, end in pairs:
            start.record()
            step()
            end.record()
        self.synchronize()
        return [start.elapsed_time(end) * MILLISECOND for start, end in pairs]
