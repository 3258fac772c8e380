"""The trace contains the operators that a step runs, whatever calls them, on any thread."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchperf_ci.bench.case import Case, Settings
from torchperf_ci.compare.affected import files_read

if TYPE_CHECKING:
    from pathlib import Path

SUITE = """
import threading

import torch
from torchperf_ci.suite import Task, workload

@workload("mine/step", "a step", modes=("training",))
def build(batch):
    x = torch.ones(4, 4, requires_grad=True)

    def step(_mark):
        x.pow(3).double().sum().backward()
        thread = threading.Thread(target=lambda: torch.ones(3).cumsum(0))
        thread.start()
        thread.join()

    return Task(torch.nn.Identity(), step=step)
"""


def test_all_operators_are_seen_inside_of_others_and_of_threads(
    tmp_path: Path, torch_environment: Path
) -> None:
    suite = tmp_path / "suite.py"
    suite.write_text(SUITE)
    settings = Settings(f"{torch_environment}/bin/python", "cpu", (str(suite),), budget=0.1, timeout=120)
    case = Case("mine/step", "training", "fp32", "eager", 1)
    found = files_read(case, settings, tmp_path, operators=True)
    inside_of_another, in_the_backward_pass, on_a_thread = "copy_", "mul", "cumsum"
    assert {"pow", "sum", inside_of_another, in_the_backward_pass, on_a_thread} <= found.operators
    assert "sort" not in found.operators
    assert found.unknown == ()
