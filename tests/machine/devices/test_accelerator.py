from __future__ import annotations

import pytest
import torch

from torchperf_ci.machine.devices.cuda import Cuda
from torchperf_ci.machine.devices.mps import Mps


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
    monkeypatch.setattr(torch.accelerator, "synchronize", lambda: timeline.told.append("wait"))
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


def test_memory_is_what_torch_allocated(monkeypatch):
    told = []
    monkeypatch.setattr(torch.accelerator, "memory_allocated", lambda: 7)
    monkeypatch.setattr(torch.accelerator, "max_memory_allocated", lambda: 9)
    monkeypatch.setattr(torch.accelerator, "reset_peak_memory_stats", lambda: told.append("reset"))
    device = Cuda()
    device.reset_peak_memory()
    assert (device.memory_allocated(), device.peak_memory(), told) == (7, 9, ["reset"])
