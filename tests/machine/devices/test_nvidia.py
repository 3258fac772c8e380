from __future__ import annotations

import pynvml
import pytest

from torchperf_ci.machine.devices.interface import GpuCondition, Throttling, TorchGpu, VendorToolError
from torchperf_ci.machine.devices.nvidia import Cuda

NOT_SUPPORTED = pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)


@pytest.mark.usefixtures("nvidia")
def test_identity_is_the_full_name_and_the_driver():
    identity = Cuda().identity()
    assert (identity.name, identity.type) == ("cuda", "NVIDIA H100 80GB HBM3")
    assert (identity.gpu_count, identity.gpu_memory_mib) == (2, 81559)
    assert (identity.driver, identity.driver_branch) == ("580.159.03", "580")
    assert identity.facts == {"gpu_uuid": "GPU-aaaa1111", "gpu_pci": "0000:3b:00.0"}


@pytest.mark.usefixtures("nvidia")
@pytest.mark.parametrize("choice", ["1", "GPU-bbbb2222", "GPU-b"])
def test_the_first_visible_gpu_is_the_one_meant(monkeypatch, choice):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", choice)
    identity = Cuda().identity()
    assert identity.facts["gpu_uuid"] == "GPU-bbbb2222"
    assert identity.gpu_count == 1


@pytest.mark.usefixtures("nvidia")
def test_of_mig_instances_only_the_first_is_seen(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "MIG-c0ffee,MIG-beef")
    identity = Cuda().identity()
    assert (identity.facts["gpu_uuid"], identity.gpu_count) == ("MIG-c0ffee", 1)


@pytest.mark.usefixtures("nvidia")
def test_a_slice_is_no_whole_card_where_only_torch_knows_of_it():
    """Kubernetes gives a container one slice and says nothing in ``CUDA_VISIBLE_DEVICES``."""
    seen = TorchGpu("NVIDIA H100 80GB HBM3 MIG 1g.10gb", "c0ffee", memory_mib=9856, count=1)
    identity = Cuda(seen).identity()
    assert (identity.type, identity.gpu_memory_mib, identity.gpu_count) == (seen.name, 9856, 1)


def test_a_slice_has_the_settings_of_its_card(nvidia, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "MIG-c0ffee")
    assert Cuda().identity().settings["gpu_mig"] == "on"
    nvidia.nvmlDeviceGetDeviceHandleFromMigDeviceHandle.assert_called_with("MIG-c0ffee")


def test_torch_knows_which_card_it_uses(h100, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3")  # of another namespace
    identity = Cuda(h100.seen).identity()
    assert identity.facts == {"gpu_uuid": f"GPU-{h100.seen.uuid}", "gpu_pci": h100.seen.pci}
    assert identity.gpu_memory_mib == 81559
    assert identity.settings == {
        "gpu_power_limit": "700 W",
        "gpu_application_clocks": "1980, 2619 MHz",
        "gpu_ecc": "on",
        "gpu_mig": "off",
    }


def test_a_real_card_idle_and_loaded(h100):
    device = Cuda(h100.seen)
    assert device.tools.condition() == GpuCondition("", 32, 89, persistence=True, processes=())
    assert device.tools.throttling() == Throttling()
    assert device.tools.clocks()["gpu_sm_mhz"] == "345"
    h100.load()
    assert device.tools.throttling() == Throttling((), ("software power cap",))
    assert device.tools.clocks()["gpu_sm_mhz"] == "1350"


def test_where_the_limit_is_not_told_the_way_to_it_is(h100):
    h100.readings["nvmlDeviceGetTemperatureThreshold 1"] = {"error": "NotSupported"}
    assert Cuda(h100.seen).tools.condition().slowdown_temperature == 32 + 55


def test_one_card_that_may_not_be_opened_hides_no_other(nvidia):
    def open_card(index):
        if index == 0:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NO_PERMISSION)
        return "GPU-bbbb2222"

    nvidia.nvmlDeviceGetHandleByIndex.side_effect = open_card
    identity = Cuda().identity()
    assert (identity.facts["gpu_uuid"], identity.gpu_count) == ("GPU-bbbb2222", 1)


@pytest.mark.usefixtures("nvidia")
def test_no_visible_gpu_is_said(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert "none is visible" in Cuda().tools.condition().problem


@pytest.mark.parametrize(
    ("mask", "voiding", "warning"),
    [
        (0x1, (), ()),  # idle
        (0x2, (), ()),  # an application clock, as asked for
        (0x4, (), ("software power cap",)),
        (0x8, ("hardware slowdown",), ()),
        (0x20, ("software thermal slowdown",), ()),
        (0x40 | 0x4, ("hardware thermal slowdown",), ("software power cap",)),
        (0x80, ("power brake slowdown",), ()),
    ],
)
def test_reasons_for_a_lowered_clock(nvidia, mask, voiding, warning):
    nvidia.nvmlDeviceGetCurrentClocksEventReasons.side_effect = lambda _: mask
    throttling = Cuda().tools.throttling()
    assert (throttling.voiding, throttling.warning) == (voiding, warning)


def test_older_drivers_call_the_reasons_otherwise(nvidia):
    nvidia.nvmlDeviceGetCurrentClocksEventReasons.side_effect = pynvml.NVMLError(
        pynvml.NVML_ERROR_FUNCTION_NOT_FOUND
    )
    nvidia.nvmlDeviceGetCurrentClocksThrottleReasons.side_effect = lambda _: 0x40
    assert Cuda().tools.throttling().voiding == ("hardware thermal slowdown",)
    nvidia.nvmlDeviceGetCurrentClocksThrottleReasons.side_effect = NOT_SUPPORTED
    assert not Cuda().tools.throttling().known
    nvidia.nvmlDeviceGetComputeRunningProcesses.side_effect = pynvml.NVMLLibraryMismatchError
    assert Cuda().tools.reading().processes == 0


def test_the_masks_are_those_of_the_library():
    from torchperf_ci.machine.devices.nvidia import VOIDING, WARNING

    assert set(VOIDING) == {
        pynvml.nvmlClocksEventReasonHwSlowdown,
        pynvml.nvmlClocksEventReasonSwThermalSlowdown,
        pynvml.nvmlClocksEventReasonHwThermalSlowdown,
        pynvml.nvmlClocksEventReasonHwPowerBrakeSlowdown,
    }
    assert set(WARNING) == {pynvml.nvmlClocksEventReasonSwPowerCap}


@pytest.mark.usefixtures("nvidia")
def test_readings():
    device = Cuda()
    assert device.tools.clocks() == {"gpu_sm_mhz": "1980", "gpu_sm_max_mhz": "1980", "gpu_memory_mhz": "2619"}
    assert device.tools.reading().joules == pytest.approx(1234.5)
    assert device.tools.condition() == GpuCondition("", 41, 87, persistence=False, processes=(4711,))


def test_what_a_gpu_does_not_offer_is_left_out(nvidia):
    for name in (
        "nvmlDeviceGetTotalEnergyConsumption",
        "nvmlDeviceGetCurrentClocksEventReasons",
        "nvmlDeviceGetClockInfo",
        "nvmlDeviceGetPersistenceMode",
        "nvmlDeviceGetComputeRunningProcesses",
        "nvmlSystemGetDriverVersion",
    ):
        getattr(nvidia, name).side_effect = NOT_SUPPORTED
    device = Cuda()
    assert device.tools.reading().joules is None
    assert device.tools.throttling().voiding == ()
    assert device.tools.clocks() == {"gpu_sm_max_mhz": "1980"}
    assert device.tools.condition().persistence is None
    assert device.tools.condition().processes is None
    assert device.identity().driver == ""


def test_the_clock_is_locked_to_the_base_clock(nvidia):
    persistence, clocks = Cuda().tools.changes()
    persistence.apply()
    clocks.apply()
    base = pynvml.NVML_CLOCK_LIMIT_ID_TDP
    nvidia.nvmlDeviceSetPersistenceMode.assert_called_once_with("GPU-aaaa1111", pynvml.NVML_FEATURE_ENABLED)
    nvidia.nvmlDeviceSetGpuLockedClocks.assert_called_once_with("GPU-aaaa1111", base, base)


def test_a_refusal_is_in_the_librarys_words(nvidia):
    nvidia.nvmlDeviceSetGpuLockedClocks.side_effect = pynvml.NVMLError(pynvml.NVML_ERROR_NO_PERMISSION)
    _, clocks = Cuda().tools.changes()
    with pytest.raises(VendorToolError, match="Insufficient Permissions"):
        clocks.apply()
