from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING

import pytest

from torchperf_ci.bench.case import Case, Settings
from torchperf_ci.bench.client import WorkerFailure
from torchperf_ci.bench.pairs import QUADS, Pair, _quad, measure_pairs

if TYPE_CHECKING:
    from pathlib import Path

SUITE = """
import os
import torch
from torchperf_ci.suite import Task, workload

@workload("pair/matmul", "a matmul, repeated as often as the environment says", modes=("inference",))
def matmul(batch_size):
    def model(x):
        for _ in range(int(os.environ.get("REPEATS", "1"))):
            y = x @ x
        return y
    return Task(model, (torch.randn(256, 256),))
"""
CASE = Case("pair/matmul", "inference", "fp32", "eager", 1)


@pytest.fixture
def base(tmp_path: Path) -> Settings:
    suite = tmp_path / "suite.py"
    suite.write_text(SUITE)
    return Settings(sys.executable, "cpu", (str(suite),), budget=0.5, timeout=60)


@pytest.fixture
def slow_python(tmp_path: Path) -> str:
    """An environment under test in which the same work is done three times."""
    python = tmp_path / "slow-python"
    python.write_text(f'#!/bin/sh\nREPEATS=3 exec {sys.executable} "$@"\n')
    python.chmod(0o755)
    return str(python)


def test_a_slower_environment_has_a_ratio_above_one(base: Settings, slow_python: str, tmp_path: Path) -> None:
    head = Settings(slow_python, "cpu", base.files, budget=0.5, timeout=60)
    [pair] = measure_pairs(CASE, base, head, tmp_path, 1)
    assert len(pair.log_ratios) == QUADS
    assert math.log(2) < pair.log_ratio < math.log(4.5)
    assert pair.head_seconds > pair.base_seconds


def test_an_arm_that_fails_ends_the_pair_with_its_reason(base: Settings, tmp_path: Path) -> None:
    head = Settings("/bin/false", "cpu", base.files, timeout=60)
    with pytest.raises(WorkerFailure, match="exited with code 1"):
        list(measure_pairs(CASE, base, head, tmp_path, 1))


class Arm:
    """Answers blocks on a machine that gets slower by ``drift`` from block to block."""

    clock = 0

    def __init__(self, seconds: float, drift: float) -> None:
        self.seconds, self.drift = seconds, drift

    def ask(self, verb: str, steps: int) -> dict[str, float]:
        assert verb == "block"
        Arm.clock += 1
        return {"seconds": self.seconds + self.drift * Arm.clock}


def test_a_linear_drift_cancels_in_a_quad() -> None:
    base, head = _quad(Arm(1.0, 0.1), Arm(1.0, 0.1), steps=1)
    assert base == pytest.approx(head)


def test_the_pair_is_one_observation_that_a_spoiled_quad_does_not_move() -> None:
    assert Pair((0.01, 0.011, 0.012, 5.0, 0.01), 1.0, 1.01).log_ratio == 0.011
