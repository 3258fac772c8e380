"""Each supported torch version as the build under test, as one of two compared builds, and as an anchor.

Not part of ``make test``: ``make versions`` makes the environments, and gives their Pythons in ``TORCHPERF_VERSIONS``.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

TINY = Path(__file__).parents[1] / "actions/caller/workloads/tiny.py"
BRIEFLY = ("--device", "cpu", "--processes", "1", "--budget", "0.2", "--target-ci", "0.5")
PYTHONS = os.environ.get("TORCHPERF_VERSIONS", "").split()


@pytest.fixture(params=PYTHONS, ids=lambda python: Path(python).parents[1].name)
def python(request: pytest.FixtureRequest) -> str:
    """A Python with one of the versions."""
    return str(Path(request.param).absolute())


def torchperf(*argv: str | Path, cwd: Path, expected: tuple[int, ...] = (0,)) -> None:
    command = [sys.executable, "-m", "torchperf_ci", *map(str, argv)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=cwd, timeout=1200)
    assert done.returncode in expected, done.stdout + done.stderr


def metrics(folder: Path) -> Iterator[dict[str, Any]]:
    for file in (folder / "torchperf-records").glob("*.json"):
        yield from (record["metric"] for record in json.loads(file.read_text()))


def test_there_is_something_to_test() -> None:
    assert PYTHONS, "TORCHPERF_VERSIONS names no Python: run `make versions`"


def test_it_is_measured(python: str, tmp_path: Path) -> None:
    """Everything of the quick suite that there is."""
    modes = ("--mode", "inference,training", "--dtype", "fp32,bf16,amp")
    torchperf("run", "--suite", "quick", "--python", python, *modes, *BRIEFLY, cwd=tmp_path)
    found = {metric["name"] for metric in metrics(tmp_path)}
    assert {"latency(ms)", "peak_memory(MiB)", "flops(GFLOP)"} <= found


def test_it_is_compiled(python: str, tmp_path: Path) -> None:
    torchperf("run", "--suite", TINY, "--python", python, "--backend", "inductor", *BRIEFLY, cwd=tmp_path)
    assert [metric["benchmark_values"] for metric in metrics(tmp_path) if metric["name"] == "accuracy"] == [
        [1.0]
    ]


def test_it_is_an_anchor(python: str, torch_environment: Path, tmp_path: Path) -> None:
    torchperf(
        "run",
        "--suite",
        TINY,
        "--python",
        torch_environment / "bin/python",
        "--anchor",
        python,
        *BRIEFLY,
        cwd=tmp_path,
    )
    assert [metric for metric in metrics(tmp_path) if metric["name"] == "latency_vs_anchor(ratio)"]


def test_it_is_compared(python: str, torch_environment: Path, tmp_path: Path) -> None:
    """Whatever the verdict is: both sides are measured."""
    argv = (
        "compare",
        "--base",
        python,
        "--head",
        torch_environment / "bin/python",
        "--suite",
        TINY,
        "--out",
        "verdicts.json",
    )
    torchperf(*argv, "--device", "cpu", "--budget", "60", cwd=tmp_path, expected=(0, 1, 5))
    verdicts = json.loads((tmp_path / "verdicts.json").read_text())["verdicts"]
    latency = next(one for one in verdicts if one["series"]["metric"] == "latency(ms)")
    assert latency["effect"] is not None, latency["why"]
