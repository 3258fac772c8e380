"""The sampling of a busy GPU, with readings of a real H100 under a load limited by power."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pynvml
import pytest

from torchperf_ci.machine import gpu_sampling
from torchperf_ci.machine.devices.cpu import Cpu
from torchperf_ci.machine.devices.interface import GpuReading, ThrottleCounters, Throttling
from torchperf_ci.machine.devices.nvidia import Cuda
from torchperf_ci.machine.gpu_sampling import clock_limits, sample_gpu, summarize_samples

from .conftest import field_value

ROWS = json.loads((Path(__file__).parent / "h100_under_load.json").read_text())["rows"]
POWER, SW_THERMAL, HW_THERMAL, BRAKE = 74, 269, 270, 271


class Replay:
    """An H100 that shows one recorded row after another."""

    def __init__(self, nvml, monkeypatch):
        self.row = ROWS[0]
        answers = {
            "nvmlDeviceGetClockInfo": lambda *_: self.row[1],
            "nvmlDeviceGetPowerUsage": lambda _: self.row[2],
            "nvmlDeviceGetTemperature": lambda *_: self.row[3],
            "nvmlDeviceGetCurrentClocksEventReasons": lambda _: self.row[4],
            "nvmlDeviceGetTotalEnergyConsumption": lambda _: self.row[5],
            "nvmlDeviceGetFieldValues": self.fields,
        }
        for name, answer in answers.items():
            getattr(nvml, name).side_effect = answer
        monkeypatch.setattr("torchperf_ci.machine.devices.nvidia.time.monotonic", lambda: self.row[0])
        self.device = Cuda()

    def fields(self, _, fields):
        counts = {POWER: self.row[6], 75: 0, SW_THERMAL: 0, HW_THERMAL: 0, BRAKE: 0}
        return [field_value(field, counts.get(field)) for field in fields]

    def between(self, start, end):
        """The counters at both ends of the time, and the readings."""
        rows = [row for row in ROWS if start <= row[0] <= end]
        found = []
        for row in rows:
            self.row = row
            found.append(self.device.tools.reading())
            if row is rows[0]:
                before = self.device.tools.throttle_counters()
        return before, self.device.tools.throttle_counters(), found


@pytest.fixture
def h100(nvidia, monkeypatch):
    return Replay(nvidia, monkeypatch)


@pytest.mark.parametrize("start", [1.2, 2.1, 3.0, 4.4, 5.8])
def test_a_second_under_the_power_limit_of_an_h100(h100, start):
    before, after, found = h100.between(start, start + 1.05)
    facts = summarize_samples(found)
    assert 1350 <= int(facts["gpu_sm_mhz"]) <= 1440
    assert float(facts["gpu_watts"]) == pytest.approx(698, abs=5)
    # The counter moves by 70 J at a time: of ten steps, one more or less.
    assert float(facts["energy_watts"]) == pytest.approx(698, rel=0.11)
    limited = clock_limits(before, after, found)
    assert set(limited) == {"power_capped"}
    assert float(limited["power_capped"]) > 0.85


def test_the_energy_of_a_long_load_is_its_power(h100):
    _, _, found = h100.between(1.2, 6.9)
    assert float(summarize_samples(found)["energy_watts"]) == pytest.approx(698, rel=0.015)


def test_before_the_limit_grips_nothing_is_held_down(h100):
    assert clock_limits(*h100.between(0.0, 0.11)) == {}


def test_a_window_that_is_short_for_the_counter_tells_no_energy(h100):
    _, _, found = h100.between(2.0, 2.4)
    assert "energy_watts" not in summarize_samples(found)
    assert "gpu_watts" in summarize_samples(found)


def counted(seconds, **reasons):
    return ThrottleCounters(
        seconds, {"hardware thermal slowdown": reasons.get("hot", 0.0)}, reasons.get("power")
    )


def looks(*reasons):
    return [GpuReading(i / 10, throttling=Throttling(voiding=given)) for i, given in enumerate(reasons)]


def test_heat_is_told_with_its_share_and_a_blink_of_it_is_not():
    found = clock_limits(counted(10.0), counted(12.0, hot=0.7), [])
    assert found == {"throttling": "hardware thermal slowdown", "throttled_share": "0.350"}
    assert clock_limits(counted(10.0), counted(13.0, hot=0.1), []) == {}


def test_what_no_counter_counts_is_told_by_the_looks():
    hot, quiet = ("hardware slowdown",), ()
    found = clock_limits(None, None, looks(hot, quiet, hot, quiet))
    assert found == {"throttling": "hardware slowdown", "throttled_share": "0.500"}


def test_a_counter_knows_better_than_the_looks():
    seen = looks(("hardware thermal slowdown",), (), ())
    assert clock_limits(counted(1.0), counted(2.0), seen) == {}


@pytest.mark.usefixtures("nvidia")
def test_counters_of_older_drivers(nvidia):
    """Reasons apart came with R550; before, heat was one."""
    counts = {POWER: 2_000_000_000, 75: 500_000_000}
    nvidia.nvmlDeviceGetFieldValues.side_effect = lambda _, fields: [
        field_value(field, counts.get(field)) for field in fields
    ]
    held = Cuda().tools.throttle_counters()
    assert (held.voiding, held.power) == ({"thermal slowdown": 0.5}, 2.0)
    nvidia.nvmlDeviceGetFieldValues.side_effect = pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
    assert Cuda().tools.throttle_counters() is None


def test_the_fields_are_those_of_the_library():
    from torchperf_ci.machine.devices import nvidia

    assert nvidia.POWER_COUNTER == pynvml.NVML_FI_DEV_PERF_POLICY_POWER
    assert nvidia.THERMAL_COUNTER == pynvml.NVML_FI_DEV_PERF_POLICY_THERMAL
    assert set(nvidia.VOIDING_COUNTERS) == {
        pynvml.NVML_FI_DEV_CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN,
        pynvml.NVML_FI_DEV_CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN,
        pynvml.NVML_FI_DEV_CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN,
    }


@pytest.mark.usefixtures("nvidia")
def test_a_gpu_is_read_all_the_time_or_at_both_ends(monkeypatch):
    monkeypatch.setattr(gpu_sampling, "INTERVAL_SECONDS", 0.001)
    with sample_gpu(Cuda(), closely=True) as found:
        while len(found) < 5:
            time.sleep(0.001)
    moments = [reading.moment for reading in found]
    assert moments == sorted(moments)
    assert len(found) >= 6
    with sample_gpu(Cuda(), closely=False) as found:
        pass
    assert len(found) == 2


def test_a_cpu_is_not_read():
    with sample_gpu(Cpu(), closely=True) as found:
        pass
    assert (found, summarize_samples(found), clock_limits(Cpu().tools.throttle_counters(), None, found)) == (
        [],
        {},
        {},
    )
