from __future__ import annotations

import math
import os
import re
import sys
import threading
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from torchperf_ci.bench import pairs
from torchperf_ci.bench.case import Case, Settings
from torchperf_ci.bench.pairs import (
    BLOCK_SECONDS,
    MIN_QUADS,
    QUADS,
    SIDES,
    Pair,
    SideFailure,
    _import_torch,
    _quad,
    _refuse_another_workload,
    calibrated_steps,
    measure_pair,
    measured_quads,
    on_same_cpus,
)
from torchperf_ci.bench.process import cache_of
from torchperf_ci.bench.selection import describe_environment
from torchperf_ci.bench.worker.protocol import Block, Built, WorkerAnswers
from torchperf_ci.metrics import COMPILE_TIMES, GRAPH_BREAKS, PEAK_MEMORY

SUITE = """
import torch
from torchperf_ci.suite import Task, workload
from under_test import BREAKS, product

@workload("pair/matmul", "a matmul, as the code under test does it", modes=("inference",))
def matmul(batch_size):
    return Task(product, (torch.randn(256, 256),))

@workload("pair/layer", "a step of training through the code under test", modes=("training",))
def layer(batch_size):
    class Layer(torch.nn.Linear):
        def forward(self, x):
            return product(super().forward(x))
    return Task(Layer(8, 8), (torch.randn(8, 8),), loss=lambda out: out.square().mean())

@workload("pair/breaks", "a graph break more or less", modes=("inference",))
def breaks(batch_size):
    def model(x):  # of products alone, for which the compiler needs no other compiler
        x = x @ x
        if BREAKS:
            torch._dynamo.graph_break()
        return x @ x
    return Task(model, (torch.randn(8, 8),))
"""
BASE = """
BREAKS = 0

def product(x):
    return x @ x
"""
HEAD = """
import torch

BREAKS = 1
kept = torch.ones(2**24)

def product(x):
    for _ in range(3):
        y = x @ x
    return y
"""
READY = """
import socket, sys
channel = socket.socket(fileno=int(sys.argv[-1]))
while channel.recv(1000):
    channel.sendall(b"{\\"ok\\": null}\\n")
"""
"""A worker that has nothing to import."""
CASE = Case("pair/matmul", "inference", "fp32", "eager", 1)


@pytest.fixture
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is planted is large."""
    monkeypatch.setattr(pairs, "BLOCK_SECONDS", 0.02)


@pytest.fixture
def base(torch_python: str, tmp_path: Path, _short: None) -> Settings:
    suite = tmp_path / "suite.py"
    suite.write_text(SUITE)
    return Settings(torch_python, "cpu", (str(suite),), _root(tmp_path / "old", BASE), budget=0.1, timeout=60)


@pytest.fixture
def head(base: Settings, tmp_path: Path) -> Settings:
    """The same environment with a later state of the code: slower, larger, and with a graph break."""
    return replace(base, path=_root(tmp_path / "new", HEAD))


def _root(folder: Path, code: str) -> tuple[str, ...]:
    folder.mkdir()
    (folder / "under_test.py").write_text(code)
    return (str(folder),)


def test_a_slower_and_larger_head_has_ratios_above_one_also_where_it_begins_and_is_left_as_it_was(
    base: Settings, head: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = list[tuple[str, str]]()

    class Noted(pairs.PairWorker):
        def ask(self, verb: str, kind: type, **arguments):
            asked.append((self._side, verb))
            return super().ask(verb, kind, **arguments)

    monkeypatch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
    monkeypatch.setattr(pairs, "PairWorker", Noted)
    pair = measure_pair(CASE, *on_same_cpus(base, head), tmp_path, head_first=True)
    assert MIN_QUADS <= len(pair.log_ratios) <= QUADS
    assert pair.log_ratio > math.log(2)
    assert pair.head_seconds > pair.base_seconds
    assert pair.head[PEAK_MEMORY] - pair.base[PEAK_MEMORY] > 32
    assert {*pair.base, *pair.head} == {PEAK_MEMORY}
    turns = {verb: "".join(side[0] for side, what in asked if what == verb) for verb in ("build", "block")}
    assert turns["build"] == "hb"
    assert re.fullmatch("h{1,3}b{1,3}(hbbh){3,}", turns["block"]), (
        "each side is calibrated, then they take turns"
    )
    left = [path.name for settings in (base, head) for path in Path(settings.path[0]).iterdir()]
    assert left == ["under_test.py"] * 2


def test_the_code_under_test_is_found_where_python_is_told_to_be_careful(
    base: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONSAFEPATH", "1")
    assert "pair/matmul" in describe_environment(base).known.workloads


def test_a_cold_pair_compiles_everything_and_tells_its_graph_breaks(
    base: Settings, head: Settings, tmp_path: Path
) -> None:
    case = Case("pair/breaks", "inference", "fp32", "inductor", 1)
    compiled = [cache_of(case, tmp_path / side) / "triton" / "kernel.cubin" for side in SIDES]
    for kernel in compiled:
        kernel.parent.mkdir(parents=True)
        kernel.touch()
    pair = measure_pair(case, *on_same_cpus(base, head), tmp_path, cold=True)
    assert (pair.base[GRAPH_BREAKS], pair.head[GRAPH_BREAKS]) == (0, 1)
    assert {*COMPILE_TIMES} <= pair.base.keys() & pair.head.keys()
    assert not any(kernel.exists() for kernel in compiled)


def test_the_arm_that_fails_is_named_with_its_reason(base: Settings, tmp_path: Path) -> None:
    (ready := tmp_path / "ready").write_text(f"#!/bin/sh\nexec {sys.executable} -S -c '{READY}' \"$@\"\n")
    ready.chmod(0o755)
    sides = replace(base, python=str(ready)), replace(base, python="/bin/false")
    with pytest.raises(SideFailure, match="exited with code 1") as failure:
        measure_pair(CASE, *on_same_cpus(*sides), tmp_path)
    assert failure.value.side == "head"


def test_a_workload_that_head_makes_of_another_config_is_no_pair() -> None:
    def worker(config: str) -> Any:
        return SimpleNamespace(answers=WorkerAnswers(Built(0, config=config)))

    _refuse_another_workload(worker("1"), worker("1"))
    with pytest.raises(SideFailure, match="its config is 2, base's 1"):
        _refuse_another_workload(worker("1"), worker("2"))


def test_every_thread_of_an_arm_that_trains_is_on_the_cpus_of_the_pair(
    base: Settings, tmp_path: Path
) -> None:
    code = """
import os

BREAKS = 0

def product(x):
    assert len(os.sched_getaffinity(0)) == 1
    assert all(len(os.sched_getaffinity(int(thread))) == 1 for thread in os.listdir("/proc/self/task"))
    return x
"""
    pinned = replace(base, path=_root(tmp_path / "pinned", code), cpus=tuple(os.sched_getaffinity(0))[:1])
    case = replace(CASE, workload="pair/layer", mode="training")
    assert measure_pair(case, pinned, pinned, tmp_path)


class SimulatedWorker:
    """WorkerAnswers blocks on a machine that gets slower by ``drift`` from block to block."""

    clock = 0

    def __init__(self, seconds: float, drift: float) -> None:
        self.seconds, self.drift = seconds, drift

    def ask(self, verb: str, kind: type[Block], steps: int) -> Block:
        assert verb == "block"
        SimulatedWorker.clock += 1
        return kind(self.seconds + self.drift * SimulatedWorker.clock)


def test_a_linear_drift_cancels_in_a_quad() -> None:
    base, head = _quad(SimulatedWorker(1.0, 0.1), SimulatedWorker(1.0, 0.1), steps=1)
    assert base == pytest.approx(head)


def test_a_block_is_calibrated_by_as_many_steps_as_a_sample_has() -> None:
    """Of a single step on an idle device one would see the latency, here 25 µs of 5."""

    class Launching:
        def ask(self, verb: str, kind: type[Block], steps: int) -> Block:
            assert verb == "block"
            return kind(5e-6 + 25e-6 / steps)

    assert calibrated_steps((Launching(), 400), (Launching(), 400)) == pytest.approx(
        BLOCK_SECONDS / 5e-6, rel=0.02
    )


@pytest.mark.parametrize(
    ("seconds", "samples"), [((0.105, 0.005, 0.005), 3), ((0.005, 0.105, 0.005), 3), ((0.5, 0.1, 0.1), 1)]
)
def test_a_sample_that_waited_for_a_cpu_shortens_no_block(seconds: tuple[float, ...], samples: int) -> None:
    class Waiting:
        def __init__(self) -> None:
            self.samples = iter(seconds)

        def ask(self, verb: str, kind: type[Block], steps: int) -> Block:
            assert verb == "block"
            return kind(next(self.samples) / steps)

    base, head = Waiting(), Waiting()
    expected = min(seconds[:samples]) / 10
    assert calibrated_steps((base, 10), (head, 10)) == pytest.approx(BLOCK_SECONDS / expected, abs=1)
    assert [len(list(worker.samples)) for worker in (base, head)] == [len(seconds) - samples] * 2


def test_a_signal_can_end_the_wait_for_torch() -> None:
    """It raises in the main thread, which would still have to wait for others."""
    waiting: list[threading.Thread] = []
    worker = SimpleNamespace(ask=lambda *_: waiting.append(threading.current_thread()))
    _import_torch(worker, worker)
    assert waiting == [threading.main_thread()] * 2


def test_the_pair_is_one_observation_that_a_spoiled_quad_does_not_move() -> None:
    assert Pair((0.01, 0.011, 0.012, 5.0, 0.01), 1.0, 1.01).log_ratio == 0.011


def test_quads_end_where_they_agree_whatever_they_say() -> None:
    assert len(measured_quads(SimulatedWorker(1.0, 0.0), SimulatedWorker(1.5, 0.0), steps=1)) == MIN_QUADS


@pytest.mark.parametrize(("seconds", "quads"), [(4.0, MIN_QUADS), (10.0, 2), (25.0, 1)])
def test_steps_that_take_long_get_fewer_quads(seconds: float, quads: int) -> None:
    assert len(measured_quads(SimulatedWorker(seconds, 0.0), SimulatedWorker(seconds, 0.0), steps=1)) == quads


def test_quads_that_spread_are_taken_all() -> None:
    class Restless(SimulatedWorker):
        def ask(self, verb: str, kind: type[Block], steps: int) -> Block:
            return kind(super().ask(verb, kind, steps) * (1 + 0.02 * (SimulatedWorker.clock % 7)))

    assert len(measured_quads(Restless(1.0, 0.0), SimulatedWorker(1.0, 0.0), steps=1)) == QUADS
