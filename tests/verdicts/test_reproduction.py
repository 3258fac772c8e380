"""Commands that reproduce a verdict, ready to paste into a shell."""

from __future__ import annotations

import shlex

import pytest

from torchperf_ci.document import text_of
from torchperf_ci.series.points import Series
from torchperf_ci.verdicts.reproduction import (
    case_options,
    compare_lines,
    in_fresh_clone,
    run_lines,
    setup_needed,
)
from torchperf_ci.verdicts.verdict import Evidence, RepeatOptions

OLD, NEW = "a" * 40, "b" * 40
SERIES = Series("r", "b", "parts/[x] y", "training", "bf16", "", "cpu", "x86", "latency(ms)")
AGAIN = RepeatOptions(
    OLD, NEW, ("--suite", "a suite.py", "--build", "pip install .", "--device", "cpu"), "sub dir", ""
)


def test_a_comparison_is_of_the_commits_and_the_series() -> None:
    folder, fetch, compare = compare_lines(AGAIN, OLD, NEW, case_options(SERIES))
    assert folder == "cd 'sub dir'"
    assert fetch == f"git fetch origin {OLD} {NEW}"
    assert shlex.split(compare) == [
        *("torchperf", "compare", "--base", OLD, "--head", NEW, "--python", "python"),
        *("--suite", "a suite.py", "--build", "pip install .", "--device", "cpu"),
        *("--filter", "parts/[x] y", "--mode", "training", "--dtype", "bf16"),
    ]


def test_how_it_was_measured_takes_the_place_of_what_was_asked_for() -> None:
    again = RepeatOptions(options=("--batch-size", "auto", "--config", "perf.yml"))
    (compare,) = compare_lines(again, "x", "y", case_options(SERIES, Evidence(batch_size=8, threads=2)))
    assert shlex.split(compare)[8:10] == ["--config", "perf.yml"]
    assert shlex.split(compare)[-4:] == ["--batch-size", "8", "--threads", "2"]


def test_what_is_run_by_itself_takes_no_builds() -> None:
    (_, run) = run_lines(AGAIN, case_options(SERIES))
    assert shlex.split(run)[:8] == [
        "torchperf",
        "run",
        "--python",
        "python",
        "--suite",
        "a suite.py",
        "--device",
        "cpu",
    ]


def test_only_commits_are_fetched() -> None:
    assert in_fresh_clone("", ("torch==2.12.0", "2026-11-01", "main"), "x") == ["x"]


@pytest.mark.parametrize(
    ("torch", "said"),
    [
        ("", ""),
        ("2.13.0+cu130", ", with PyTorch 2.13.0 in the active Python (pip install torch==2.13.0)"),
        ("2.13.0", ", with PyTorch 2.13.0 in the active Python (pip install torch==2.13.0)"),
        ("2.14.0.dev20261101+cpu", ", with PyTorch 2.14.0.dev20261101+cpu in the active Python"),
        ("2.14.0a0+git0ff1ce0", ", with PyTorch 2.14.0a0+git0ff1ce0 in the active Python"),
        ("`x` <b>", ", with PyTorch `x` <b> in the active Python"),
    ],
)
def test_what_has_to_be_there_is_said_with_how_to_get_it_where_pip_has_it(torch: str, said: str) -> None:
    assert text_of(setup_needed(torch)) == f"in a clone of the repository{said}"
