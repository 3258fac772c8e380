"""Tracing and profiling operators does not import torch's compiler, which would double the startup time of a worker."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from torchperf_ci.bench.worker.torch_environment import COMPILER, without_compiler

PROJECT = Path(__file__).parents[3]
LOOKS = f"""
import sys
import torch
from torchperf_ci.bench.worker.traces import used_by
from torchperf_ci.bench.worker.correctness import check_dtype
from torchperf_ci.bench.worker.flops import count_flops
from torchperf_ci.bench.worker.profiling import profile
from torchperf_ci.bench.worker.traces import operators_run
from torchperf_ci.machine.devices import device

step = lambda: torch.ones(2, 3) @ torch.ones(3, 4)
check_dtype(step, "fp32", "cpu")
flops, used = count_flops(step), used_by(step)
assert flops == 2 * 2 * 3 * 4, flops
assert ("mm", "float32", "contiguous") in used.triples, used
assert "aten::mm" in [line.name for line in profile(device("cpu"), step, "")]
assert "mm" in operators_run(step).operators
assert {COMPILER!r} not in sys.modules
"""


class Seen(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.names.append(func.__name__)
        return func(*args, **(kwargs or {}))


def test_all_looks_at_a_step_leave_the_compiler_where_it_is() -> None:
    subprocess.run([sys.executable, "-c", LOOKS], cwd=PROJECT, check=True, timeout=300)


def test_what_a_mode_was_it_is_again() -> None:
    wrapped = Seen.__torch_dispatch__
    with without_compiler(Seen), Seen() as seen:
        torch.ones(2).add(1)
    assert seen.names == ["ones.default", "add.Tensor"]
    assert Seen.__torch_dispatch__ is wrapped


def test_where_the_compiler_is_a_mode_stays_as_it_is(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, COMPILER, object())
    wrapped = Seen.__torch_dispatch__
    with without_compiler(Seen):
        assert Seen.__torch_dispatch__ is wrapped
