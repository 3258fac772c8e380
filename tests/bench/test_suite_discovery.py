"""``torchperf suite discover`` with real libraries."""

from __future__ import annotations

from typing import TYPE_CHECKING

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
    command = ["suite", "discover", "--suite", str(known), "--out", str(out)]
    assert main([*command, "--filter", RUNS, FAILS, "vision/timm_efficientnet_b0"]) == 0
    said = capsys.readouterr()
    assert "1 of 2 architectures tried run and add something" in said.err
    assert said.out.startswith(f"{RUNS}: ")
    assert catalogue([out]).suites[str(out)] == (RUNS,)


def test_names_of_series_are_not_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "discovered.py"
    out.write_text("MODELS = ()\n")
    assert main(["suite", "discover", "--out", str(out)]) == 2
    assert (
        f"{out} exists, and nothing is overwritten: name another file with --out" in capsys.readouterr().err
    )
    assert out.read_text() == "MODELS = ()\n"
