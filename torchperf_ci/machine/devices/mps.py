"""Apple GPUs."""

from __future__ import annotations

from torchperf_ci.machine.devices.cpu import read_processor
from torchperf_ci.machine.devices.interface import Device, DeviceIdentity, Timing


class Mps(Device):
    """An Apple GPU through Metal. Its memory is the host's, and it has no tools of its own to ask or tune.

    Steps are timed as a batch: the events of torch 2.13 can hang or come out reversed (pytorch#162872). A batch of
    0.1 s makes little of the waiting at its end, which takes some 0.3 ms.
    """

    torch_type = "mps"
    timing = Timing(sample=0.1, load=1.0, total=1.0, batches=True)

    def synchronize(self) -> None:
        import torch

        torch.mps.synchronize()

    def memory_allocated(self) -> int:
        import torch

        return int(torch.mps.current_allocated_memory())

    def reset_peak_memory(self) -> None:
        """Hand cached blocks back, so that what the driver holds afterwards is what is used from now on."""
        import torch

        torch.mps.empty_cache()

    def peak_memory(self) -> int:
        """What the driver holds for this process; the allocator keeps it all until the next reset."""
        import torch

        return int(torch.mps.driver_allocated_memory())

    def identity(self) -> DeviceIdentity:
        """The chip's name, as in ``Apple M2``: it fixes the GPU but for the number of its cores."""
        return DeviceIdentity("mps", read_processor().model, gpu_count=1)
