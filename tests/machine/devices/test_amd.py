from __future__ import annotations

import ast
import inspect
import sys
from importlib.metadata import files

import pytest

from torchperf_ci.machine.devices.amd import Rocm, marketing_name
from torchperf_ci.machine.devices.interface import ThrottleCounters, TorchGpu, VendorToolError

ROCMINFO = """\
*******
Agent 1
  Name:                    AMD EPYC 9654
  Marketing Name:          AMD EPYC 9654 96-Core Processor
Agent 2
  Name:                    gfx942
  Marketing Name:          AMD Instinct MI300X OAM
  Vendor Name:             AMD
"""


@pytest.fixture
def no_rocminfo(monkeypatch):
    monkeypatch.setenv("PATH", "")


def test_the_name_is_the_last_that_rocminfo_prints():
    assert marketing_name(ROCMINFO) == "AMD Instinct MI300X OAM"
    assert marketing_name("Marketing Name:   \n  Vendor Name: AMD\n") == ""


@pytest.mark.parametrize(
    ("seen", "name"), [("AMD Instinct MI300X OAM",) * 2, ("gfx942", "AMD Radeon Graphics")]
)
def test_the_name_is_that_of_torchs_gpu_where_the_last_one_is_in_the_processor(seen, name):
    graphics = "Agent 3\n  Name:   gfx1036\n  Marketing Name:   AMD Radeon Graphics\n"
    assert marketing_name(ROCMINFO + graphics, seen) == name


@pytest.mark.usefixtures("amdsmi")
def test_rocminfo_names_the_device(monkeypatch, tmp_path):
    (tmp_path / "answer").write_text(ROCMINFO)
    program = tmp_path / "rocminfo"
    program.write_text(f"#!/bin/sh\nexec /bin/cat {tmp_path}/answer\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert Rocm().identity().type == "AMD Instinct MI300X OAM"


@pytest.mark.usefixtures("amdsmi", "no_rocminfo")
def test_identity():
    identity = Rocm().identity()
    assert (identity.name, identity.type) == ("rocm", "AMD Instinct MI300X")
    assert (identity.gpu_count, identity.gpu_memory_mib) == (2, 196592)
    assert (identity.driver, identity.driver_branch) == ("6.12.12", "6.12")
    assert identity.settings == {
        "gpu_power_limit": "750 W",
        "gpu_compute_partition": "SPX",
        "gpu_memory_partition": "NPS1",
    }
    assert identity.facts["gpu_pci"] == "0000:c0:00.0"


@pytest.mark.usefixtures("amdsmi", "no_rocminfo")
@pytest.mark.parametrize(
    "variables",
    [
        {"ROCR_VISIBLE_DEVICES": "1"},
        {"ROCR_VISIBLE_DEVICES": "GPU-8a2f000000000001"},
        {"HIP_VISIBLE_DEVICES": "1,0"},
        {"CUDA_VISIBLE_DEVICES": "1"},
        {"ROCR_VISIBLE_DEVICES": "1,0", "HIP_VISIBLE_DEVICES": "0", "CUDA_VISIBLE_DEVICES": "1"},
    ],
)
def test_the_first_visible_gpu_is_the_one_meant(monkeypatch, variables):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert Rocm().identity().facts["gpu_pci"] == "0000:c1:00.0"


@pytest.mark.usefixtures("amdsmi", "no_rocminfo")
def test_torch_knows_which_card_it_uses_and_leaves_out_the_function_of_its_address():
    assert Rocm(TorchGpu(pci="0000:c1:00.0", count=8)).identity().facts["gpu_pci"] == "0000:c1:00.0"


def test_the_stand_in_has_the_librarys_own_functions_arguments_and_keys(amdsmi):
    """Read, not imported: the package does not load without ROCm's library."""
    (source,) = [file for file in files("amdsmi") or () if file.name == "amdsmi_interface.py"]
    real = {
        node.name: node for node in ast.parse(source.read_text()).body if isinstance(node, ast.FunctionDef)
    }
    for name, ours in vars(type(amdsmi)).items():
        if not name.startswith("amdsmi_"):
            continue
        arguments = [argument.arg for argument in real[name].args.args]
        assert list(inspect.signature(ours).parameters)[1:] == arguments, name
        if "set_" not in name:
            answer = ours(amdsmi, *[next(iter(amdsmi.levels)), "gfx", ""][: len(arguments)])
            words = {node.value for node in ast.walk(real[name]) if isinstance(node, ast.Constant)}
            assert set(answer if isinstance(answer, dict) else ()) <= words, name


def test_the_real_package_without_its_library_is_no_tool_and_says_nothing_of_its_own(monkeypatch, capfd):
    monkeypatch.delitem(sys.modules, "amdsmi", raising=False)
    assert "does not find its library" in Rocm().tools.condition().problem
    assert capfd.readouterr() == ("", "")


def test_readings(amdsmi):
    device = Rocm()
    assert device.tools.clocks() == {"gpu_sm_mhz": "132", "gpu_sm_max_mhz": "2100"}
    assert device.tools.reading().joules == pytest.approx(30.6)
    assert device.tools.condition().temperature == 55
    assert device.tools.condition().processes == (99,)
    amdsmi.violations |= {"active_prochot_thrm": True, "active_ppt_pwr": True}
    assert device.tools.throttling().voiding == ("processor hot",)
    assert device.tools.throttling().warning == ("package power limit",)


def test_what_it_shows_at_work(amdsmi):
    shown = Rocm().tools.reading()
    assert (shown.sm_mhz, shown.watts, shown.temperature) == (132, 742, 55)
    assert (shown.joules, shown.processes) == (pytest.approx(30.6), 1)
    for unsupported in ("N/A", 2**16 - 1, 2**32 - 1):  # before MI300
        amdsmi.power = {"current_socket_power": unsupported, "average_socket_power": 300}
        assert Rocm().tools.reading().watts == 300


def test_violations_are_counted_in_a_counter_of_their_own(amdsmi):
    assert Rocm().tools.throttle_counters() is None
    amdsmi.violations |= {
        "acc_counter": 1000,
        "acc_prochot_thrm": 5,
        "acc_hbm_thrm": "N/A",
        "acc_ppt_pwr": 900,
    }
    assert Rocm().tools.throttle_counters() == ThrottleCounters(1000.0, {"processor hot": 5.0}, 900.0)


def test_a_library_before_rocm_6_3_has_no_violations_and_another_name_for_energy(amdsmi, monkeypatch):
    monkeypatch.delattr(type(amdsmi), "amdsmi_get_violation_status")
    amdsmi.energy = {"power": 2_000_000, "counter_resolution": 15.3, "timestamp": 1}
    assert Rocm().tools.reading().joules == pytest.approx(30.6)
    assert not Rocm().tools.throttling().known
    assert Rocm().tools.throttle_counters() is None


def test_determinism_holds_the_clock_below_its_peak(amdsmi):
    (change,) = Rocm().tools.changes()
    change.apply()
    assert change.value == "deterministic at 1890 MHz"
    assert list(amdsmi.levels.values()) == ["DETERMINISM", "AUTO"]


def test_a_refusal_is_one_line(amdsmi):
    amdsmi.allowed = False
    (change,) = Rocm().tools.changes()
    with pytest.raises(
        VendorToolError, match=r"^Error code: 10 \| AMDSMI_STATUS_NO_PERM - Permission Denied$"
    ):
        change.apply()
