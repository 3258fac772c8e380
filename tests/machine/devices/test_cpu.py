from __future__ import annotations

import platform
import time

import pytest

from torchperf_ci.machine.devices.cpu import Cpu
from torchperf_ci.machine.devices.interface import Device
from torchperf_ci.machine.devices.system_files import numbers


class Clock:
    """A clock that only the steps move."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(time, "perf_counter", clock)
    return clock


def steps_of(clock, durations):
    left = iter(durations)

    def step():
        clock.now += next(left)

    return step


def test_each_step_is_timed_by_itself(clock):
    durations = [1.0, 4.0, 0.5]
    assert Cpu().time_steps(steps_of(clock, durations), 3) == durations


def test_a_device_without_events_gives_the_mean_of_a_batch(clock):
    assert Device.time_steps(Cpu(), steps_of(clock, [1.0, 4.0, 1.0]), 3) == [2.0]


@pytest.mark.parametrize(
    ("machine", "name"), [("x86_64", "cpu"), ("aarch64", "arm64-cpu"), ("arm64", "arm64-cpu")]
)
def test_identity_is_as_the_infrastructure_writes_it(server, monkeypatch, machine, name):
    monkeypatch.setattr(platform, "machine", lambda: machine)
    monkeypatch.setattr(platform, "system", lambda: "Linux")
    identity = Cpu(server).identity()
    assert identity.name == name
    assert identity.type == "Xeon_Platinum_8488C_4c"


def test_the_clock_is_the_mean_of_the_cpus(server):
    assert Cpu(server).tools.clocks() == {"cpu_mhz": "2004"}


def test_a_machine_without_frequency_scaling_has_no_clock(tmp_path):
    assert Cpu(tmp_path).tools.clocks() == {}


@pytest.mark.parametrize(
    ("ranges", "expected"), [("", ()), ("0-2,5\n", (0, 1, 2, 5)), ("3", (3,)), ("(null)", ())]
)
def test_the_kernels_lists_of_cpus(ranges, expected):
    assert numbers(ranges) == expected
