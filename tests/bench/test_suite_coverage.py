"""``torchperf suite coverage`` with a real worker."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torchperf_ci.bench.case import Case
from torchperf_ci.bench.suite_coverage import MeasuredUse, coverage_document
from torchperf_ci.bench.worker.protocol import ApiUse, Inventory
from torchperf_ci.cli import main
from torchperf_ci.document import Table

if TYPE_CHECKING:
    import pytest

    from torchperf_ci.document import Words

FAULTY = Path(__file__).parent / "faulty_suite.py"
SUITE = """
import torch
from torchperf_ci.suite import Task, workload

@workload("my/net", "classification", batch=2)
def net(batch):
    return Task(torch.nn.Linear(3, 1), (torch.randn(batch, 3),), loss=torch.sum)

@workload("my/sort", "sorting", modes=("inference",))
def sort(batch):
    return Task(torch.sort, (torch.randn(batch, 3),))
"""


def counted(capsys: pytest.CaptureFixture[str], *argv: str) -> dict[str, Any]:
    assert main(["suite", "coverage", "--json", *argv]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_a_candidate_adds_what_the_suite_lacks_and_a_crash_costs_one_case(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], torch_python: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "mine.py"
    file.write_text(SUITE)
    _install_package(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    faulty = ("faulty/writes", "faulty/fine")
    suite = ("--suite", str(FAULTY), "my/net", "--filter", "my/*", *faulty, "--candidate", str(file))
    found = counted(capsys, "--python", torch_python, *suite)
    cases = {(case["workload"], case["mode"]): case for case in found["cases"]}
    assert "torch.nn.functional.linear" in cases["my/net", "inference"]["functions"]
    assert "torch.sum" in cases["my/net", "training"]["functions"]
    assert ["mm", "float32", "strided"] in cases["my/net", "training"]["triples"]
    assert ("faulty/fine", "inference") in cases, "the worker that crashed was replaced"
    assert [failure["workload"] for failure in found["failures"]] == ["faulty/writes"]
    assert found["candidates"]["my/sort"]["families"] == ["sort"]
    assert "my/net" not in found["candidates"]
    assert "sort" not in found["suite"]["families"]
    assert (found["packages"], found["untested"]) == (["models 1"], {"torch.cat": 1})


def _install_package(folder: Path) -> None:
    (folder / "models.py").write_text("torch.cat(x); torch.sum(y)")
    (folder / "models-1.dist-info").mkdir()
    metadata = "Metadata-Version: 2.1\nName: models\nVersion: 1\nRequires-Dist: torch\n"
    (folder / "models-1.dist-info/METADATA").write_text(metadata)
    (folder / "models-1.dist-info/RECORD").write_text("models.py,,\n")


def test_the_tables_are_whole_however_few_workloads_there_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], torch_python: str
) -> None:
    file = tmp_path / "mine.py"
    file.write_text(SUITE)
    command = ["suite", "coverage", "--suite", str(file), "--filter", "my/sort", "--mode", "inference"]
    assert main([*command, "--python", torch_python]) == 0
    printed = capsys.readouterr()
    assert re.search(r"^triples +1 ", printed.out, re.MULTILINE)
    assert "more, all of them with" not in printed.out
    assert "1 workload uses 1 triple of torch" in printed.err


def use(*triples: tuple[str, str, str], functions: tuple[str, ...] = (), seconds: float = 1.0) -> ApiUse:
    return ApiUse(frozenset(functions), frozenset(triples), seconds)


MM, MM_HALF, ABS = (
    ("mm", "float32", "contiguous"),
    ("mm", "bfloat16", "contiguous"),
    ("abs", "float32", "strided"),
)


def rows(*uses: tuple[str, ApiUse], suite: tuple[str, ...], files: dict[str, int]) -> dict[str, list[Words]]:
    """The rows of the tables by their first cell; candidates come last."""
    cases = {Case(name, "inference", "fp32", "eager", 1): found for name, found in uses}
    inventory = Inventory(frozenset("abcd"), frozenset({"mm", "abs"}), frozenset({"mm"}))
    document = coverage_document(MeasuredUse(cases, {}, inventory, ["lib 1"], files), suite, "2.13")
    tables = [block for block in document.blocks if isinstance(block, Table)]
    return {str(row[0]): [*row] for table in tables for row in table.rows}


def test_shares_are_of_the_suite_alone_and_operators_outside_of_the_inventory_do_not_count() -> None:
    odd = ("quantized", "float32", "contiguous")
    found = rows(
        ("a", use(MM, odd, functions=("a",))), ("b", use(ABS, functions=("b",))), suite=("a",), files={}
    )
    assert found["public functions"][1:4] == ["1", "4", "25.0%"]
    assert found["ATen families"][1:4] == ["1", "2", "50.0%"]
    assert found["core ATen operators"][1:4] == ["1", "1", "100.0%"]
    assert found["triples"][1] == "2"


def test_another_dtype_is_a_new_triple_and_no_new_family_and_the_best_candidate_is_first() -> None:
    dear, cheap = use(MM_HALF, ABS, seconds=10.0), use(MM_HALF, seconds=1.0)
    found = rows(("a", use(MM)), ("dear", dear), ("cheap", cheap), suite=("a",), files={})
    assert found["cheap"][4:7] == ["0", "0", "1"]
    assert found["dear"][4:7] == ["0", "1", "2"]
    assert [*found].index("cheap") < [*found].index("dear")


def test_what_has_a_method_or_an_operator_in_the_suite_is_tested() -> None:
    files = {"torch.abs": 9, "torch.stack": 8, "torch.nn.functional.pad": 7, "torch.add": 6}
    tested = use(ABS, functions=("torch.Tensor.stack", "torch.Tensor.__add__"))
    found = rows(("a", tested), suite=("a",), files=files)
    assert found["torch.nn.functional.pad"] == ["torch.nn.functional.pad", "7"]
    assert not {"torch.abs", "torch.stack", "torch.add"} & found.keys()
