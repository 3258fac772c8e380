"""The API functions that a step uses, and those that exist."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest
import torch
from torch.nn import functional

from torchperf_ci.bench.worker.protocol import Callers
from torchperf_ci.bench.worker.traces import (
    GRAPHS,
    family,
    files_that_call,
    inventory,
    operators_run,
    used_by,
)

if TYPE_CHECKING:
    from pathlib import Path


def test_functions_are_what_python_calls_and_operators_what_runs_in_the_backward_pass_too() -> None:
    weight = torch.randn(4, 3, requires_grad=True)
    data = torch.randn(2, 4)

    def step() -> None:
        functional.relu(torch.matmul(data, weight)).mul(2).sum().backward()
        data.add_(1)

    used = used_by(step)
    assert {"torch.matmul", "torch.nn.functional.relu", "torch.Tensor.sum"} <= used.functions
    assert "torch.relu" not in used.functions, "functional.relu calls it"
    operators = {name for name, _, _ in used.triples}
    assert {"mm", "relu", "threshold_backward", "add"} <= operators
    assert not {"add_", "matmul"} & operators
    assert used.cpu_seconds > 0


def test_a_triple_has_the_dtype_and_the_layout_of_the_first_tensor() -> None:
    images = torch.randn(2, 3, 4, 4).to(memory_format=torch.channels_last)
    sparse = torch.eye(3).to_sparse()

    def step() -> None:
        images.abs()
        images[:, :, ::2].abs()
        sparse.coalesce()
        torch.eye(3, dtype=torch.float64).neg()
        torch.ones(2)

    triples = used_by(step).triples
    assert {
        ("abs", "float32", "channels_last"),
        ("abs", "float32", "strided"),
        ("is_coalesced", "float32", "sparse_coo"),
        ("neg", "float64", "contiguous"),
        ("ones", "float32", "contiguous"),
    } <= triples


def test_kernels_of_a_replayed_graph_are_unknown_operators(monkeypatch: pytest.MonkeyPatch) -> None:
    for device, name in GRAPHS:
        if graph := getattr(getattr(torch, device), name, None):
            monkeypatch.setattr(graph, "replay", lambda _: None)
    assert operators_run(lambda: torch.ones(2)).unknown == []
    ran = operators_run(lambda: torch.cuda.CUDAGraph.replay(torch.ones(2)))
    assert ran.unknown == ["it replays a graph, whose kernels run without operators"]
    assert "ones" in ran.operators


@pytest.mark.parametrize(
    ("operator", "name"),
    [("aten::add_.Tensor", "add"), ("aten::mm", "mm"), ("aten::__ilshift__.Scalar", "__ilshift__")],
)
def test_a_family_has_all_overloads(operator: str, name: str) -> None:
    assert family(operator) == name


def test_the_inventory_has_what_can_run_here() -> None:
    known = inventory()
    assert {"addmm", "convolution", "native_layer_norm"} <= known.core
    assert {"mm", "_foreach_add", "gelu_backward"} <= known.families
    assert "torch.nn.functional.linear" in known.functions
    assert "matmul" not in known.families, "made of others, it has no kernel"


def test_functions_are_counted_by_files_of_packages_that_use_torch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = "import torch\ntorch.cat(x); torch.cat(y)\nF.pad(x); torch.nn.functional.pad(x); torch.linalg.svd(x)\n"
    optional = 'torch>=2; extra == "all"'
    for name, needs in (("models", optional), ("other", "torch-like"), ("torchperf-ci", optional)):
        (tmp_path / f"{name}.py").write_text(source)
        folder = tmp_path / f"{name}-1.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\nRequires-Dist: {needs}\n"
        )
        (folder / "RECORD").write_text(f"{name}.py,,\ngone.py,,\n")
    hidden = shutil.copytree(tmp_path, tmp_path / "hidden", ignore=shutil.ignore_patterns("hidden"))
    monkeypatch.setattr("sys.path", [str(tmp_path), str(hidden)])
    counts = {"torch.cat": 1, "torch.nn.functional.pad": 1, "torch.linalg.svd": 1}
    assert files_that_call() == Callers(["models 1"], counts)
