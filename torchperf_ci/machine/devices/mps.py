"""Apple GPUs."""

from __future__ import annotations

from torchperf_ci.machine.devices.cpu import read_processor
from torchperf_ci.machine.devices.interface import Device, DeviceIdentity, Timing


class Mps(Device):
    """An Apple GPU through Metal. It uses the host's memory, and there are no vendor tools to query or tune it.

    Steps are timed in batches, because events in torch 2.13 can hang or return reversed times (pytorch#162872). In a
    batch of 0.1 s, the synchronization at its end, some 0.3 ms, matters little.
    """

    torch_type = "mps"
    timing = Timing(sample=0.1, load=1.0, total=1.0, batches=True)

    def is_available(self) -> bool:
        import torch

        return torch.backends.mps.is_available()

    def memory_allocated(self) -> int:
        return int(self._torch.current_allocated_memory())

    def reset_peak_memory(self) -> None:
        """Release cached blocks, so that :meth:`peak_memory` covers only memory used from now on."""
        self._torch.empty_cache()

    def peak_memory(self) -> int:
        """The memory that the driver holds for this process; the allocator keeps all of it until the next reset."""
        return int(self._torch.driver_allocated_memory())

    def identity(self) -> DeviceIdentity:
        """The name of the chip, such as ``Apple M2``, which determines the GPU except for its number of cores."""
        return DeviceIdentity("mps", read_processor().model, gpu_count=1)
