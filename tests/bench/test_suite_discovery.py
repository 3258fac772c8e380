"""``torchperf suite discover``; tests/actions/test_discover_template.py tries real architectures."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from torchperf_ci.bench.suite_coverage import _with_models
from torchperf_ci.cli import main

if TYPE_CHECKING:
    from pathlib import Path


def test_where_nothing_is_new_nothing_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torchperf_ci.bench.suite_coverage._architectures", lambda *_: {})
    out = tmp_path / "discovered.py"
    assert main(["suite", "discover", "--out", str(out)]) == 0
    assert "0 of 0 architectures tried run and add something: nothing is written" in capsys.readouterr().err
    assert not out.exists()


@pytest.mark.parametrize(("glob", "code"), [("vision/nonsuch*", 2), ("vision/resnet18", 0)])
def test_a_filter_that_matches_neither_an_architecture_nor_a_workload_is_a_mistake(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, glob: str, code: int
) -> None:
    known = SimpleNamespace(known=SimpleNamespace(workloads={"vision/resnet18": None}))
    worker = SimpleNamespace(ask=lambda *_, **__: {})
    monkeypatch.setattr(
        "torchperf_ci.bench.selection.described_worker", lambda *_: nullcontext((worker, known))
    )
    assert main(["suite", "discover", "--filter", glob, "--out", str(tmp_path / "discovered.py")]) == code
    assert (f"nothing passes --filter {glob}" in capsys.readouterr().err) == (code == 2)


def test_what_a_suite_has_stays_before_what_is_new() -> None:
    first = _with_models("", ['timm_classifier("a", 128)'])
    again = _with_models(first, ['timm_classifier("b", 128)', 'huggingface("language/hf_c", "c")'])
    head, models = first.split("\nMODELS = (\n")
    added = "from torchperf_ci.suite.hugging_face import huggingface\n"
    new = '    timm_classifier("b", 128),\n    huggingface("language/hf_c", "c"),\n)\n'
    assert again == f"{head}{added}\nMODELS = (\n{models.removesuffix(')' + chr(10))}{new}"


def test_a_file_of_somebody_elses_is_not_touched(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "discovered.py"
    out.write_text("MODELS = ()\n")
    assert main(["suite", "discover", "--out", str(out)]) == 2
    assert f"{out} is not a suite that this command has written: name another" in capsys.readouterr().err
    assert out.read_text() == "MODELS = ()\n"
