from __future__ import annotations

from torchperf_ci.bench.case import Settings
from torchperf_ci.bench.commands import _dependencies
from torchperf_ci.bench.pairs import on_same_cpus
from torchperf_ci.bench.worker.protocol import TorchEnvironment
from torchperf_ci.machine.devices.amd import Rocm
from torchperf_ci.machine.devices.interface import TorchGpu
from torchperf_ci.records.record import Dependency

SEEN = TorchGpu("AMD Instinct MI300X", "c0ffee", "0000:c1:00.0", 196592, 8)


def test_what_torch_says_of_the_device_is_carried_to_all_who_ask_its_vendors_tools() -> None:
    told = TorchEnvironment("cuda", True, SEEN, "2.13.0", "abc", {}, {}, {})
    settings = Settings("python", "auto").on(told)
    assert (settings.device, settings.hip, settings.seen) == ("cuda", True, SEEN)
    assert isinstance(settings.hardware, Rocm)
    assert isinstance(on_same_cpus(settings, settings)[0].hardware, Rocm)


def test_a_run_goes_on_on_other_cpus() -> None:
    assert Settings("python", "cpu", cpus=(1,)).plan() == Settings("python", "cpu", cpus=(2,)).plan()


def test_a_record_names_the_torch_that_it_was_measured_with_by_its_commit() -> None:
    told = TorchEnvironment("cpu", False, SEEN, "2.13.0+cpu", "cf30153c", {}, {}, {"timm": "1.0"})
    assert _dependencies(told) == {
        "pytorch": Dependency(repo="pytorch/pytorch", sha="cf30153c", version="2.13.0+cpu"),
        "timm": Dependency(version="1.0"),
    }
