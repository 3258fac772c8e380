"""``torchperf suite discover`` with real libraries."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchperf_ci.bench.suite_coverage import _with_models
from torchperf_ci.cli import main
from torchperf_ci.suite.registry import catalogue

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

SUITE = """
import torch
from torchperf_ci.suite import Task, workload

@workload("my/negation", "negation", modes=("inference",))
def negation(batch):
    return Task(torch.neg, (torch.ones(batch),))
"""
RUNS = "vision/timm_starnet_s1"
FAILS = "vision/torchvision_inception_v3"
"""Images of 128 by 128 are too small for it."""


def test_what_runs_and_adds_something_becomes_a_suite(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    known, out = tmp_path / "mine.py", tmp_path / "discovered.py"
    known.write_text(SUITE)
    out.write_text(_with_models("", ['timm_classifier("test_vit", 160)']))
    command = ["suite", "discover", "--suite", str(known), "--out", str(out)]
    assert main([*command, "--filter", RUNS, FAILS, "vision/timm_efficientnet_b0"]) == 0
    said = capsys.readouterr()
    assert "1 of 2 architectures tried run and add something" in said.err
    assert said.out.startswith(f"{RUNS}: ")
    assert catalogue([out]).suites[str(out)] == ("vision/timm_test_vit", RUNS)


def test_where_nothing_is_new_nothing_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torchperf_ci.bench.suite_coverage._architectures", lambda *_: {})
    out = tmp_path / "discovered.py"
    assert main(["suite", "discover", "--out", str(out)]) == 0
    assert "0 of 0 architectures tried run and add something: nothing is written" in capsys.readouterr().err
    assert not out.exists()


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
    assert f"{out} is no suite that this command has written: name another" in capsys.readouterr().err
    assert out.read_text() == "MODELS = ()\n"
