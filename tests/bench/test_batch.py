from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import pytest

from torchperf_ci.bench import process
from torchperf_ci.bench.case import Case, Settings
from torchperf_ci.bench.worker.protocol import Block, Peak
from torchperf_ci.bench.worker_client import WorkerFailure
from torchperf_ci.machine.devices.interface import TorchGpu

if TYPE_CHECKING:
    from pathlib import Path

CASE = Case("vision/a", "inference", "fp32", "eager", 0)
SETTINGS = Settings("python", "cpu")


class Device:
    """Answers as a worker on a device that has ``lanes`` samples' worth of parallelism and memory for ``most``."""

    def __init__(self, lanes: int, most: int) -> None:
        self.lanes, self.most, self.size = lanes, most, 0

    def ask(self, verb: str, _timeout: float, _kind: type, **arguments: Any) -> object:
        if verb == "build":
            self.size = arguments["batch_size"]
        if verb == "first_step" and self.size > self.most:
            msg = "oom"
            raise WorkerFailure(msg, "out of memory")
        if verb == "peak":
            return Peak(self.size << 20, 0, "VmHWM")
        return Block(0.01 * max(1.0, self.size / self.lanes))


@pytest.mark.parametrize(
    ("lanes", "most", "expected"), [(16, 10**6, 16), (16, 10, 8), (1, 10**6, 1), (10**9, 10**9, 2**16)]
)
def test_the_batch_doubles_until_it_does_not_pay_or_memory_ends(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, lanes: int, most: int, expected: int
) -> None:
    monkeypatch.setattr(process, "open_worker", lambda *_: nullcontext(Device(lanes, most)))
    monkeypatch.setattr(process, "available_memory", lambda: 0)
    assert process.find_batch_size(CASE, SETTINGS, tmp_path) == expected


@pytest.mark.parametrize(("memory_mib", "expected"), [(64, 32), (63, 16), (1, 1)])
def test_two_workers_fit_beside_each_other(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, memory_mib: int, expected: int
) -> None:
    monkeypatch.setattr(process, "open_worker", lambda *_: nullcontext(Device(10**9, 10**9)))
    settings = Settings("python", "cuda", seen=TorchGpu(memory_mib=memory_mib))
    assert process.find_batch_size(CASE, settings, tmp_path) == expected


def test_blocks_are_as_long_as_a_step_is_short_although_the_second_one_is_slow(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked: list[int] = []

    class RecordsGraph(Device):
        def ask(self, verb: str, _timeout: float, _kind: type, **arguments: Any) -> object:
            if verb == "first_step":
                asked.clear()
            if verb == "block":
                asked.append(arguments["steps"])
            return 10.0 if asked == [1] else super().ask(verb, _timeout, _kind, **arguments)

    monkeypatch.setattr(process, "open_worker", lambda *_: nullcontext(RecordsGraph(16, 10**6)))
    monkeypatch.setattr(process, "available_memory", lambda: 0)
    assert process.find_batch_size(CASE, SETTINGS, tmp_path) == 16
    assert asked[-1] == 10  # steps of 20 ms


def test_a_batch_norm_that_cannot_train_on_one_sample_is_given_two(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    class WithBatchNorm(Device):
        def ask(self, verb: str, _timeout: float, _kind: type, **arguments: Any) -> object:
            if verb == "first_step" and self.size == 1:
                msg = "failed"
                raise WorkerFailure(msg, "ValueError: Expected more than 1 value per channel when training")
            return super().ask(verb, _timeout, _kind, **arguments)

    monkeypatch.setattr(process, "open_worker", lambda *_: nullcontext(WithBatchNorm(16, 10**6)))
    monkeypatch.setattr(process, "available_memory", lambda: 0)
    assert process.find_batch_size(CASE, SETTINGS, tmp_path) == 16


def test_a_workload_that_does_not_fit_at_all_fails(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(process, "open_worker", lambda *_: nullcontext(Device(1, 0)))
    with pytest.raises(WorkerFailure, match="oom"):
        process.find_batch_size(CASE, SETTINGS, tmp_path)
