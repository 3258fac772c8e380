"""docs/workloads.md is true: its table, its list of operators, and its example."""

from __future__ import annotations

import re
from pathlib import Path

import torch

from torchperf_ci.suite.registry import catalogue

PAGE = (Path(__file__).parents[2] / "docs" / "workloads.md").read_text(encoding="utf-8")


def test_the_table_names_every_workload_and_its_task():
    rows = re.findall(r"^\| `([^`]+)` \| ([^|]+) \|", PAGE, flags=re.MULTILINE)
    found = catalogue()
    assert rows == [(name, found.workloads[name].task) for name in found.suites["core"]]


def test_the_page_names_every_operator():
    assert tuple(re.findall(r"`(operators/[^`]+)`", PAGE)) == catalogue().suites["operators"]


def test_the_example_loads_and_runs(tmp_path):
    (example,) = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
    assert len(example.splitlines()) <= 11
    path = tmp_path / "example.py"
    path.write_text(example)
    found = catalogue([path])
    (name,) = found.suites[str(path)]
    entry = found.workloads[name]
    torch.manual_seed(0)
    task = entry.build(entry.batch_size("training", "cpu"))
    assert task.inputs[0].shape[0] == 8
    task.loss(task.model(*task.inputs)).backward()
    task.optimizer(task.model.parameters()).step()
