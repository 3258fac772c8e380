from __future__ import annotations

import argparse
from typing import Any

import pytest

from torchperf_ci.errors import UsageError
from torchperf_ci.options import RUN_OPTIONS, read_all


def read(argv: list[str], environ: dict[str, str] | None = None) -> dict[str, Any]:
    parser = argparse.ArgumentParser()
    for option in RUN_OPTIONS:
        option.add_to(parser)
    return read_all(RUN_OPTIONS, parser.parse_args(argv), environ or {})


def test_nothing_given_is_none_everywhere() -> None:
    assert set(read([]).values()) == {None}


def test_an_empty_variable_is_nothing_given() -> None:
    assert set(read([], {option.env: " " for option in RUN_OPTIONS}).values()) == {None}


def test_the_flag_beats_the_environment() -> None:
    found = read(["--budget", "7"], {"TORCHPERF_BUDGET": "5", "TORCHPERF_PROCESSES": "2"})
    assert (found["budget"], found["processes"]) == (7.0, 2)


@pytest.mark.parametrize(
    ("argv", "environ"),
    [
        (["--suite", "quick", "core"], {}),
        (["--suite", "quick,core"], {}),
        (["--suite", "quick", "--suite", "core"], {}),
        ([], {"TORCHPERF_SUITE": "quick, core"}),
        ([], {"TORCHPERF_SUITE": "quick\ncore\n"}),
    ],
)
def test_lists_are_separated_by_commas_lines_or_repetition(argv: list[str], environ: dict[str, str]) -> None:
    assert read(argv, environ)["suite"] == ["quick", "core"]


@pytest.mark.parametrize(("given", "expected"), [("auto", 0), ("16", 16)])
def test_batch_size(given: str, expected: int) -> None:
    assert read(["--batch-size", given])["batch_size"] == expected


def test_switches_are_words_in_the_environment() -> None:
    assert read(["--resume"])["resume"] is True
    found = read([], {"TORCHPERF_RESUME": "false", "TORCHPERF_TUNE": "true"})
    assert (found["resume"], found["tune"]) == (False, True)


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--processes", "0"], "--processes cannot be '0': it is a whole number from 1"),
        (["--budget", "nan"], "--budget cannot be 'nan'"),
        (["--target-ci", "-1"], "--target-ci cannot be"),
        (["--shard", "3/2"], "--shard cannot be '3/2': it is"),
        (["--shard", "0/2"], "--shard cannot be '0/2'"),
        (["--batch-size", "many"], "--batch-size cannot be 'many'"),
        (["--dtype", "fp31"], "unknown value for --dtype 'fp31': did you mean fp32"),
        (["--device", "gpu"], "unknown value for --device 'gpu'"),
        (["--backend", "inductor:fast"], "unknown value for --backend"),
    ],
)
def test_a_bad_value_is_told_with_the_good_ones(argv: list[str], message: str) -> None:
    with pytest.raises(UsageError) as error:
        read(argv)
    assert message in str(error.value)


def test_a_bad_variable_is_told_by_its_name() -> None:
    with pytest.raises(UsageError, match="TORCHPERF_BUDGET cannot be 'soon'"):
        read([], {"TORCHPERF_BUDGET": "soon"})


def test_flags_are_those_of_the_contract() -> None:
    contract = (
        "config suite filter device mode dtype backend batch-size python processes target-ci budget shard tune resume "
        "benchmark-name out dry-run"
    )
    assert {f"--{name}" for name in contract.split()} <= {option.flag for option in RUN_OPTIONS}
