from __future__ import annotations

import gc
import gzip
import json
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
import torch

from torchperf_ci.bench.worker import profiling
from torchperf_ci.bench.worker.profiling import (
    LEAK_STEPS,
    OUTSIDE_OPERATORS,
    STEPS,
    ProfileLine,
    leak,
    peak,
    profile,
    profile_lines,
)
from torchperf_ci.machine.devices import device as device_of

if TYPE_CHECKING:
    from pathlib import Path


class Range:
    """Microseconds."""

    def __init__(self, start: float, end: float) -> None:
        self.start, self.end = start, end

    def elapsed_us(self) -> float:
        return self.end - self.start


def event(name: str, start: float, end: float, own: float = 0.0, device: str = "CPU") -> Any:
    return SimpleNamespace(
        name=name,
        time_range=Range(start, end),
        self_cpu_time_total=own,
        device_type=SimpleNamespace(name=device),
    )


def by_name(found: list[ProfileLine]) -> dict[str, ProfileLine]:
    assert len({line.name for line in found}) == len(found)
    return {line.name: line for line in found}


def test_memory_that_is_taken_once_is_no_leak() -> None:
    kept, steps = [], iter(range(LEAK_STEPS))

    def step() -> None:
        if next(steps) == LEAK_STEPS * 3 // 4:
            kept.append(torch.ones(2**22))

    assert leak(device_of("cpu"), step, budget=60).host < 1024


def test_what_earlier_steps_have_left_to_the_collector_is_not_in_the_peak() -> None:
    """Such as those that were sampled, for seconds, with the collector off."""
    device = device_of("cpu")
    before = peak(device, lambda: None).device
    left = SimpleNamespace(tensor=torch.ones(2**26))
    left.itself = left
    gc.disable()
    try:
        del left
        assert peak(device, lambda: None).device < before + 2**27
    finally:
        gc.enable()


def test_what_an_operator_takes_is_the_median_of_the_steps_and_what_was_before_them_is_left_out() -> None:
    steps = [event("ProfilerStep*", 1000 * n, 1000 * n + 900, own=50) for n in (1, 2, 3)]
    calls = [event("aten::mm", 1000 * n + 10 * k, 0, own=200) for n in (1, 2, 3) for k in (1, 2)]
    slow, early = event("aten::mm", 2500, 0, own=90_000), event("aten::mm", 500, 0, own=1)
    found = by_name(profile_lines([early, *steps, *calls, slow]))
    assert found["aten::mm"] == ProfileLine("operator", "aten::mm", pytest.approx(0.4), pytest.approx(7 / 3))
    assert found[OUTSIDE_OPERATORS] == ProfileLine("operator", OUTSIDE_OPERATORS, pytest.approx(0.05), 1)


def test_kernels_are_told_by_their_length_and_ranges_on_the_device_are_no_kernels() -> None:
    step = [event("ProfilerStep*", 0, 900), event("ProfilerStep*", 100, 800, device="CUDA")]
    mark = "Optimizer.step#SGD.step"
    optimizer = [event(mark, 10, 60, own=5), event(mark, 300, 400, device="CUDA")]
    kernels = [event("gemm", 200, 300, device="CUDA"), event("gemm", 300, 350, device="CUDA")]
    found = by_name(profile_lines([*step, *optimizer, *kernels]))
    assert found["gemm"] == ProfileLine("kernel", "gemm", pytest.approx(0.15), 2)
    assert {line.kind for line in found.values() if line.name != "gemm"} == {"operator"}


def test_waiting_for_kernels_is_counted_and_takes_no_time_of_its_own() -> None:
    calls = [event("cudaStreamSynchronize", 10, 500, own=490), event("cudaLaunchKernel", 1, 9, own=8)]
    found = by_name(profile_lines([event("ProfilerStep*", 0, 900), *calls]))
    assert (found["cudaStreamSynchronize"].ms, found["cudaStreamSynchronize"].count) == (0, 1)
    assert found["cudaLaunchKernel"].ms == pytest.approx(0.008)


def test_a_real_step_is_told_by_its_operators_and_leaves_a_trace(tmp_path: Path) -> None:
    left, right = torch.randn(32, 32), torch.randn(32, 32)
    trace = tmp_path / "trace.json.gz"
    found = by_name(profile(device_of("cpu"), lambda: (left @ right).relu() @ right, str(trace)))
    assert (found["aten::mm"].count, found["aten::relu"].count, found[OUTSIDE_OPERATORS].count) == (2, 1, 1)
    assert all(line.ms > 0 for line in (found["aten::mm"], found[OUTSIDE_OPERATORS]))
    with gzip.open(trace) as file:
        events = json.load(file)["traceEvents"]
    assert sum(one["name"] == "aten::mm" for one in events) == 2 * STEPS


def test_fewer_steps_of_very_many_operators_are_profiled(monkeypatch, tmp_path: Path) -> None:
    monkeypatch.setattr(profiling, "MAX_EVENTS", 300)
    matrix, trace = torch.randn(4, 4), tmp_path / "trace.json"
    found = by_name(profile(device_of("cpu"), lambda: [matrix @ matrix for _ in range(50)], str(trace)))
    assert found["aten::mm"].count == 50
    events = json.loads(trace.read_text())["traceEvents"]
    assert 0 < sum(one["name"] == "aten::mm" for one in events) < 50 * STEPS
