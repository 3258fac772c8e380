"""docs/workloads.md is true: its table, its list of operators, and its examples."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import torch

from torchperf_ci.suite.registry import catalogue

if TYPE_CHECKING:
    from torchperf_ci.suite import Task

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "workloads.md").read_text(encoding="utf-8")


def test_the_table_names_every_model_of_pytorch_alone_and_its_task():
    rows = re.findall(r"^\| `([^`]+)` \| ([^|]+) \|", PAGE, flags=re.MULTILINE)
    found = catalogue()
    alone = [
        entry for entry in found.workloads.values() if not entry.requires and entry.domain != "operators"
    ]
    assert rows == [(entry.name, entry.task) for entry in alone]


def test_the_page_names_every_operator():
    assert tuple(re.findall(r"`(operators/[^`]+)`", PAGE)) == catalogue().suites["operators"]


def test_the_pages_count_what_needs_pytorch_alone():
    alone = [entry for entry in catalogue().workloads.values() if not entry.requires]
    operators = [entry for entry in alone if entry.domain == "operators"]
    assert f"and {len(alone)} need only PyTorch" in PAGE
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert (
        f"{len(alone) - len(operators)} models and {len(operators)} operators that need only PyTorch"
        in readme
    )
    assert f"[{len(catalogue().workloads) - len(alone)} models](docs/suite.md)" in readme


EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)


def train(example: str, path: Path) -> Task:
    """One step of training of the example's workload."""
    path.write_text(example)
    found = catalogue([path])
    (name,) = found.suites[str(path)]
    entry = found.workloads[name]
    torch.manual_seed(0)
    task = entry.task_of(entry.batch_sizes["training"], "training")
    task.loss(task.call(task.model)).backward()
    task.optimizer(task.model.parameters()).step()
    return task


def test_the_example_loads_and_runs(tmp_path):
    (example,) = (text for text in EXAMPLES if "my_net" in text)
    assert len(example.splitlines()) <= 11
    assert train(example, tmp_path / "example.py").inputs[0].shape[0] == 8


@pytest.mark.filterwarnings("default")  # a library's are its own
def test_a_model_of_hugging_face_takes_three_lines(tmp_path):
    example, by_name = (text for text in EXAMPLES if "huggingface" in text)
    assert example == EXAMPLES[0]
    assert len([*filter(None, example.splitlines())]) == 3
    path = tmp_path / "gpt2.py"
    path.write_text(example)
    assert catalogue([path]).suites[str(path)] == ("language/gpt2",)
    assert set(train(by_name, tmp_path / "bert.py").inputs) == {"input_ids", "labels"}


def test_the_example_of_a_step_is_that_of_the_examples():
    (example,) = (text for text in EXAMPLES if "my_gan" in text)
    body = example[example.index("    generator = ") :].replace("def step(mark, noise, images)", "")
    original = (ROOT / "examples/gan.py").read_text()
    for line in filter(None, body.splitlines()):
        assert line.strip() in original


def test_what_needs_a_library_loads_without_it(tmp_path):
    (example,) = (text for text in EXAMPLES if "requires" in text)
    path = tmp_path / "needs.py"
    path.write_text(example)
    assert catalogue([path]).workloads["vision/torchvision_resnet18"].requires == ("torchvision",)
