"""The trace contains the operators that a step runs, whatever calls them, on any thread."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchperf_ci.bench.case import Case, Settings
from torchperf_ci.compare.affected import files_read

if TYPE_CHECKING:
    from pathlib import Path

SUITE = """
import os
import threading

import torch
from torchperf_ci.suite import Task, workload

@workload("mine/{name}", "a step", modes=("training",))
def build(batch):
    x = torch.ones(4, 4, requires_grad=True)
    {before}

    def step(_mark):
        x.pow(3).double().sum().backward()
        thread = threading.Thread(target=lambda: torch.ones(3).cumsum(0))
        thread.start()
        thread.join()

    return Task(torch.nn.Identity(), step=step)
"""
STATIC = "torch._C._jit_to_static_module(torch.jit.freeze(torch.jit.script(torch.nn.ReLU().eval()))._c)"


def test_all_operators_are_seen_inside_of_others_and_of_threads(
    tmp_path: Path, torch_environment: Path
) -> None:
    def read(name: str, before: str = "pass") -> tuple[set[str], tuple[str, ...]]:
        suite = tmp_path / f"{name}.py"
        suite.write_text(SUITE.format(name=name, before=before))
        settings = Settings(f"{torch_environment}/bin/python", "cpu", (str(suite),), budget=0.1, timeout=120)
        found = files_read(
            Case(f"mine/{name}", "training", "fp32", "eager", 1), settings, tmp_path, operators=True
        )
        return {*found.operators}, found.unknown

    operators, unknown = read("plain")
    inside_of_another, in_the_backward_pass, on_a_thread = "copy_", "mul", "cumsum"
    assert {"pow", "sum", inside_of_another, in_the_backward_pass, on_a_thread} <= operators
    assert "sort" not in operators
    assert unknown == ()
    _, unknown = read("static", before=f"{STATIC}; os.fork() or os._exit(0)")
    assert unknown == (
        "it makes a static module of TorchScript, which calls kernels directly",
        "it forks, and the operators that the child runs are not recorded",
    )
