from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import torchperf_ci.machine.devices as package
from torchperf_ci.machine.devices import device, installed
from torchperf_ci.machine.devices.amd import Rocm
from torchperf_ci.machine.devices.cpu import Cpu
from torchperf_ci.machine.devices.mps import Mps
from torchperf_ci.machine.devices.nvidia import Cuda
from torchperf_ci.machine.devices.xpu import Xpu


@pytest.mark.parametrize(
    ("torch_type", "hip", "backend"),
    [
        ("cpu", False, Cpu),
        ("cuda", False, Cuda),
        ("cuda", True, Rocm),
        ("mps", False, Mps),
        ("xpu", False, Xpu),
    ],
)
def test_a_torch_type_has_a_backend(torch_type, hip, backend):
    found = device(torch_type, hip=hip)
    assert type(found) is backend
    assert found.torch_type == torch_type


@pytest.mark.usefixtures("no_vendor_tools")
def test_where_no_torch_can_be_asked_the_tools_that_find_a_gpu_tell_whose_it_is(amdsmi):
    """``torchperf doctor --device cuda``, as the documentation prescribes it for every GPU."""
    assert isinstance(installed("cuda"), Rocm)
    assert isinstance(installed("cpu"), Cpu)


@pytest.mark.usefixtures("nvidia", "amdsmi")
def test_where_both_find_one_it_is_cudas():
    assert isinstance(installed("cuda"), Cuda)


def test_everything_here_loads_without_any_installed_package():
    """In the environment under test there is torch and the standard library, and torch loads on use only."""
    folder = Path(package.__file__).parent
    modules = [f"{package.__name__}.{path.stem}" for path in folder.glob("*.py") if path.stem != "__init__"]
    program = f"import sys; sys.path.insert(0, {str(folder.parents[2])!r}); import {', '.join(modules)}"
    subprocess.run([sys.executable, "-I", "-S", "-c", program], check=True, timeout=60)


@pytest.mark.usefixtures("no_vendor_tools")
@pytest.mark.parametrize(("torch_type", "hip"), [("cuda", False), ("cuda", True), ("xpu", False)])
def test_without_the_vendors_tools_a_device_says_so_and_still_answers(torch_type, hip):
    found = device(torch_type, hip=hip)
    identity = found.identity()
    assert identity.type.startswith("unknown")
    assert identity.gpu_count == 0
    assert identity.facts["gpu_problem"]
    assert found.tools.clocks() == {}
    assert found.tools.throttling().voiding == ()
