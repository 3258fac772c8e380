from __future__ import annotations

import platform
import shutil
import subprocess

import pytest

from torchperf_ci.machine.devices import cpu as module
from torchperf_ci.machine.devices.cpu import Processor, read_processor


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        ("Intel(R) Xeon(R) Platinum 8488C", "Xeon_Platinum_8488C_48c"),
        ("Intel(R) Xeon(R) CPU E5-2686 v4 @ 2.30GHz", "Xeon_E5-2686_v4_@_2.30GHz_48c"),
        ("AMD EPYC 7R13 Processor", "AMD_EPYC_7R13_48c"),
        ("Intel(R) Core(TM) i9-14900K", "Core_i9-14900K_48c"),
        ("Neoverse-V1", "Neoverse-V1_48c"),
    ],
)
def test_the_type_is_the_cleaned_model_with_its_cores(model, expected):
    assert Processor(model, cores=48, threads=96).type == expected


def test_cores_are_counted_once_however_many_threads(server, monkeypatch):
    monkeypatch.setattr(platform, "system", lambda: "Linux")
    found = read_processor(server)
    assert (found.cores, found.threads) == (4, 8)
    assert found.microcode == "0x2b0005c0"


def test_cpus_whose_cores_are_not_numbered_are_cores_themselves(server, monkeypatch):
    """As in a sandbox of gVisor."""
    monkeypatch.setattr(platform, "system", lambda: "Linux")
    for topology in (server / "sys/devices/system/cpu").glob("cpu*/topology"):
        shutil.rmtree(topology)
    assert (read_processor(server).cores, read_processor(server).threads) == (8, 8)


@pytest.mark.parametrize("indent", ["", "  "])
def test_arm_models_are_named_by_lscpu(server, monkeypatch, indent):
    (server / "proc/cpuinfo").write_text("processor\t: 0\nCPU part\t: 0xd40\n")
    monkeypatch.setattr(platform, "system", lambda: "Linux")
    rows = (
        "Vendor ID:            ARM",
        "  BIOS Model name:    Virt",
        f"{indent}Model name:         Neoverse-V1",
    )
    monkeypatch.setattr(module.system_files, "program_output", lambda *_: "\n".join(rows) + "\n")
    assert read_processor(server).model == "Neoverse-V1"


def test_arm_models_are_told_apart_without_lscpu(server, monkeypatch):
    monkeypatch.setattr(platform, "system", lambda: "Linux")
    monkeypatch.setattr(module.system_files, "program_output", lambda *_: "")
    (server / "proc/cpuinfo").write_text("processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd40\n")
    assert read_processor(server).type == "Arm_0x41_0xd40_4c"


def test_agrees_with_lscpu_on_this_machine():
    if platform.system() == "Darwin":
        expected = subprocess.check_output(["sysctl", "-n", "hw.physicalcpu"], text=True).strip()
        assert read_processor().cores == int(expected)
        return
    listed = subprocess.check_output(["lscpu", "--parse=core,socket"], text=True)
    assert read_processor().cores == len({line for line in listed.splitlines() if not line.startswith("#")})
