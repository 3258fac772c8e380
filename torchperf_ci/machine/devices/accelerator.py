"""What the accelerators share on torch's side: memory and events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torchperf_ci.machine.devices.base import Device, Timing

if TYPE_CHECKING:
    from collections.abc import Callable

MILLISECOND = 1e-3
SHORTEST = 1e-6
"""Seconds; two events half a microsecond apart, which is what they resolve, may read the same."""


class Accelerator(Device):
    """A device with a module of its own in torch (``torch.cuda``), and with events that time reliably.

    An H100 at its power limit finds its clock within a second, around which it then swings with a period of 1.0 to
    1.2 s: the median of half a period is 3% off, that of a whole one less than 1% (``benchmarks/sustained.py``).
    """

    timing = Timing(load=1.0, total=1.2)

    def synchronize(self) -> None:
        self._torch.synchronize()

    def memory_allocated(self) -> int:
        return int(self._torch.memory_allocated())

    def reset_peak_memory(self) -> None:
        """Hand cached blocks back, so that what is held afterwards is what is used from now on."""
        self._torch.empty_cache()
        self._torch.reset_peak_memory_stats()

    def peak_memory(self) -> int:
        return int(self._torch.max_memory_allocated())

    def peak_held_memory(self) -> int:
        return int(self._torch.max_memory_reserved())

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
        return [max(start.elapsed_time(end) * MILLISECOND, SHORTEST) for start, end in pairs]

    @property
    def _torch(self) -> Any:
        """``torch.cuda`` or its like: ``torch.accelerator`` tells of memory from torch 2.9 on only."""
        import torch

        return getattr(torch, self.torch_type)
