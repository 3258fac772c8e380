from __future__ import annotations

from torchperf_ci.bench.worker import timing
from torchperf_ci.machine.devices.cpu import Cpu


def test_equal_blocks_of_either_kind_are_timed(monkeypatch):
    monkeypatch.setattr(timing, "MATRIX_SIZE", 8)
    monkeypatch.setattr(timing, "EXERCISE_WARM_UP_SECONDS", 0.001)
    monkeypatch.setattr(timing, "EXERCISE_SECONDS", 0.01)
    monkeypatch.setattr(timing, "BLOCK_SECONDS", 0.001)
    found = timing.time_equal_blocks(Cpu())
    assert {kind: len(blocks) for kind, blocks in found.items()} == {
        "matrix products": 10,
        "tiny kernels": 10,
    }
    assert min(map(min, found.values())) > 0
