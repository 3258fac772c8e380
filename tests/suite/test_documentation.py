"""docs/workloads.md is true: its table, its list of operators, and its example."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import torch

from torchperf_ci.suite.registry import catalogue

if TYPE_CHECKING:
    from torchperf_ci.suite import Task

PAGE = (Path(__file__).parents[2] / "docs" / "workloads.md").read_text(encoding="utf-8")


def test_the_table_names_every_workload_and_its_task():
    rows = re.findall(r"^\| `([^`]+)` \| ([^|]+) \|", PAGE, flags=re.MULTILINE)
    found = catalogue()
    assert rows == [(name, found.workloads[name].task) for name in found.suites["core"]]


def test_the_page_names_every_operator():
    assert tuple(re.findall(r"`(operators/[^`]+)`", PAGE)) == catalogue().suites["operators"]


EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)


def train(example: str, path: Path) -> Task:
    """One step of training of the example's workload."""
    path.write_text(example)
    found = catalogue([path])
    (name,) = found.suites[str(path)]
    entry = found.workloads[name]
    torch.manual_seed(0)
    task = entry.task_of(entry.batch_size("training", "cpu"))
    task.loss(task.call(task.model)).backward()
    task.optimizer(task.model.parameters()).step()
    return task


def test_the_example_loads_and_runs(tmp_path):
    assert len(EXAMPLES[0].splitlines()) <= 11
    assert train(EXAMPLES[0], tmp_path / "example.py").inputs[0].shape[0] == 8


class BertConfig:
    """What the example asks of the library's, whose vocabulary is as large as this by default."""

    vocab_size = 30522

    def __init__(self, **sizes: object) -> None:
        assert sizes["hidden_size"] % sizes["num_attention_heads"] == 0
        self.hidden_size = sizes["hidden_size"]


class BertForMaskedLM(torch.nn.Module):
    """Arguments and attributes are named as the library's are."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.embedding = torch.nn.Embedding(config.vocab_size, config.hidden_size)

    def forward(
        self, input_ids=None, attention_mask=None, token_type_ids=None, position_ids=None, labels=None
    ):
        logits = self.embedding(input_ids) * attention_mask.unsqueeze(-1)
        return SimpleNamespace(
            loss=torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten() % 128)
        )


def test_the_example_for_models_of_hugging_face_loads_and_runs(tmp_path, monkeypatch):
    library = SimpleNamespace(BertConfig=BertConfig, BertForMaskedLM=BertForMaskedLM)
    monkeypatch.setitem(sys.modules, "transformers", library)
    assert set(train(EXAMPLES[1], tmp_path / "named.py").inputs) == {"input_ids", "attention_mask", "labels"}
