"""When a machine counts as disturbed during a measurement, and how that is described."""

from __future__ import annotations

import pytest

from torchperf_ci.machine.interference import (
    describe_interference,
    interference_note,
    is_void,
    power_limit_note,
)

QUIET = {
    "seconds": "3.000",
    "cpus": "8",
    "load": "1.20",
    "other_cpus": "0.10",
    "cpu_pressure": "0.010",
    "cpu_steal": "0.001",
}


@pytest.mark.parametrize(
    "facts",
    [
        {},
        QUIET,
        {**QUIET, "load": "30.00"},  # a compilation has just ended: the average is of the last minute
        {**QUIET, "other_cpus": "2.00"},
        {**QUIET, "cpu_pressure": "1.000"},  # the workload has more threads than there are CPUs
        {**QUIET, "other_cpus": "1.00", "cpu_pressure": "0.049"},
        {**QUIET, "cpu_steal": "0.019"},
        {**QUIET, "power_capped": "0.990", "gpu_sm_mhz": "1380"},  # what a GPU keeps up
        {**QUIET, "seconds": "0.100", "other_cpus": "8.00", "cpu_steal": "0.100"},  # too short for ticks
        {"seconds": "3.000", "cpus": "8", "load": "9.00"},  # macOS, eight threads of ours
    ],
)
def test_what_is_ours_or_little_is_no_disturbance(facts: dict[str, str]) -> None:
    assert describe_interference([facts]) is None
    assert interference_note([facts]) == ""


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        (
            {"cpus": "2", "load": "9.03", "other_cpus": "1.80", "cpu_pressure": "0.950"},
            "load 9.0 on 2 CPUs, 1.8 of them used by other work; tasks waited for a CPU 95% of the time",
        ),
        # what has just begun is not in the average yet
        ({"load": "0.20", "other_cpus": "2.10"}, "other work took 2.1 of 8 CPUs"),
        # a step of 8 threads is as slow as the one thread that waits
        (
            {"load": "9.10", "other_cpus": "1.00", "cpu_pressure": "0.120"},
            "load 9.1 on 8 CPUs, 1.0 of them used by other work; tasks waited for a CPU 12% of the time",
        ),
        ({"cpu_steal": "0.041"}, "the hypervisor gave 4% of the CPU time to others"),
        ({"cpu_quota_throttled": "0.300"}, "the CPU quota throttled processes 30% of the time"),
        ({"cpu_throttle_events": "3"}, "heat slowed cores down 3 times"),
        ({"other_gpu_processes": "1"}, "another process also computed on the GPU"),
        ({"other_gpu_processes": "3"}, "3 other processes also computed on the GPU"),
        ({"throttling": "HwSlowdown, SwThermal"}, "the GPU was throttled (HwSlowdown, SwThermal)"),
        (
            {"throttling": "HwThermal", "throttled_share": "0.350"},
            "the GPU was throttled up to 35% of the time (HwThermal)",
        ),
    ],
)
def test_each_disturbance_is_told_in_words(facts: dict[str, str], words: str) -> None:
    assert describe_interference([{**QUIET, **facts}]) == words
    assert interference_note([{**QUIET, **facts}]) == f"⚠ disturbed during the measurement: {words}"


def test_where_nobody_tells_whose_load_it_is_twice_the_cpus_count() -> None:
    assert (
        describe_interference([{"seconds": "3.000", "cpus": "8", "load": "17.00"}]) == "load 17.0 on 8 CPUs"
    )


def test_processes_count_by_their_time() -> None:
    busy = {**QUIET, "other_cpus": "8.00", "load": "9.00"}
    assert describe_interference([*[QUIET] * 5, busy]) is None
    assert describe_interference([*[QUIET] * 5, {**busy, "seconds": "9.000"}]) is not None


def test_throttling_of_one_process_is_told() -> None:
    found = describe_interference(
        [QUIET, {**QUIET, "throttling": "HwThermal"}, {**QUIET, "cpu_throttle_events": "1"}]
    )
    assert found == "heat slowed cores down once; the GPU was throttled (HwThermal)"


def test_heat_voids_and_the_power_limit_is_told() -> None:
    assert is_void({**QUIET, "throttling": "HwThermal"})
    capped = {**QUIET, "power_capped": "0.970", "gpu_sm_mhz": "1395"}
    assert not is_void(capped)
    less = {**capped, "power_capped": "0.400", "gpu_sm_mhz": "1700"}
    assert power_limit_note([[QUIET, capped, less], [QUIET]]) == (
        "in 1 of 2 cases the GPU was at its power limit up to 97% of the time, its clock at 1395 MHz: its speed under "
        "sustained load"
    )
    assert power_limit_note([[QUIET]]) == ""
