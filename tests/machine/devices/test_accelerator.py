from __future__ import annotations

import pytest
import torch

from torchperf_ci.bench.worker import profiling
from torchperf_ci.machine.devices.mps import Mps
from torchperf_ci.machine.devices.nvidia import Cuda
from torchperf_ci.machine.devices.xpu import Xpu


class Timeline:
    """What a device is told, in order; its clock shows milliseconds."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.milliseconds = 0.0

    def event(self, device: str, *, enable_timing: bool = False) -> Event:
        assert device == "cuda"
        assert enable_timing
        self.told.append("create")
        return Event(self)


class Event:
    def __init__(self, timeline: Timeline) -> None:
        self.timeline = timeline
        self.at = 0.0

    def record(self) -> None:
        self.timeline.told.append("record")
        self.at = self.timeline.milliseconds

    def elapsed_time(self, end: Event) -> float:
        return end.at - self.at


@pytest.fixture
def timeline(monkeypatch):
    timeline = Timeline()
    monkeypatch.setattr(torch, "Event", timeline.event)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: timeline.told.append("wait"))
    return timeline


def test_steps_are_timed_by_events_with_one_wait_at_the_end(timeline):
    durations = iter([2.0, 8.0])

    def step():
        timeline.told.append("step")
        timeline.milliseconds += next(durations)

    assert Cuda().time_steps(step, 2) == pytest.approx([0.002, 0.008])
    turn = ["record", "step", "record"]
    assert timeline.told == [*["create"] * 4, "wait", *turn, *turn, "wait"]


@pytest.mark.usefixtures("timeline")
def test_events_that_read_the_same_are_a_microsecond_apart():
    assert Cuda().time_steps(lambda: None, 2) == [1e-6] * 2


def test_apple_gpus_are_timed_without_events(timeline, monkeypatch):
    monkeypatch.setattr(torch.mps, "synchronize", lambda: timeline.told.append("wait"))
    assert len(Mps().time_steps(lambda: timeline.told.append("step"), 2)) == 1
    assert timeline.told == ["wait", "step", "step", "wait"]


def test_memory_is_what_torch_allocated_in_versions_whose_accelerator_module_does_not_tell(monkeypatch):
    """``torch.accelerator`` has no memory functions before torch 2.9."""
    told = []
    monkeypatch.delattr(torch, "accelerator")
    answers = {"memory_allocated": 7, "max_memory_allocated": 9, "max_memory_reserved": 20}
    for name, answer in answers.items():
        monkeypatch.setattr(torch.cuda, name, lambda answer=answer: answer)
    for name in ("empty_cache", "reset_peak_memory_stats"):
        monkeypatch.setattr(torch.cuda, name, lambda name=name: told.append(name))
    device = Cuda()
    device.reset_peak_memory()
    assert (device.memory_allocated(), device.peak_memory(), device.peak_held_memory()) == (7, 9, 20)
    assert told == ["empty_cache", "reset_peak_memory_stats"]


@pytest.mark.parametrize("backend", [Cuda, Xpu])
def test_torch_has_what_is_asked_for(backend):
    asked = [
        *("synchronize", "memory_allocated", "empty_cache", "reset_peak_memory_stats"),
        *("max_memory_allocated", "max_memory_reserved"),
    ]
    assert [
        name for name in asked if not callable(getattr(getattr(torch, backend.torch_type), name, None))
    ] == []


def test_a_graph_that_is_replayed_works_in_memory_that_it_holds(monkeypatch):
    device = Cuda()
    for name, answer in {"peak_memory": 9, "peak_held_memory": 20}.items():
        monkeypatch.setattr(device, name, lambda answer=answer: answer)
    for name in ("synchronize", "reset_peak_memory"):
        monkeypatch.setattr(device, name, lambda: None)
    assert profiling.peak(device, lambda: None).device == 9
    assert profiling.peak(device, lambda: None, replayed=True).device == 20
