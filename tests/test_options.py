from __future__ import annotations

import argparse
from dataclasses import fields
from typing import Any

import pytest

from torchperf_ci import cli, options
from torchperf_ci.errors import UsageError
from torchperf_ci.options import options_of
from torchperf_ci.options.analysis_commands import CheckOptions
from torchperf_ci.options.measurement_commands import RunOptions
from torchperf_ci.options.option import seconds
from torchperf_ci.options.storage_commands import IngestOptions, QueryOptions, ReceiveOptions, UploadOptions

COMMANDS = [command.options_class for command in cli.COMMANDS]


def read(argv: list[str], environ: dict[str, str] | None = None, command: type[Any] = RunOptions) -> Any:
    parser = argparse.ArgumentParser()
    for option in options_of(command):
        option.add_to(parser)
    return options.read(command, parser.parse_args(argv), environ or {})


def test_nothing_given_is_the_default_everywhere() -> None:
    assert read([]) == RunOptions()
    assert (read([]).config, read([]).suite, read([]).resume) == (None, (), False)


def test_an_empty_variable_is_nothing_given() -> None:
    assert read([], {option.env: " " for option in options_of(RunOptions)}) == RunOptions()


def test_the_flag_beats_the_environment() -> None:
    found = read(["--budget", "7"], {"TORCHPERF_BUDGET": "5", "TORCHPERF_PROCESSES": "2"})
    assert (found.budget, found.processes) == (7.0, 2)


@pytest.mark.parametrize(
    ("argv", "environ", "expected"),
    [
        (["--config", "flag.yml"], {"TORCHPERF_POLICY": "own.yml"}, "flag.yml"),
        ([], {"TORCHPERF_CONFIG": "config.yml", "TORCHPERF_POLICY": "own.yml"}, "own.yml"),
        ([], {"TORCHPERF_CONFIG": "config.yml", "TORCHPERF_POLICY": " "}, "config.yml"),
    ],
)
def test_check_reads_the_variable_of_the_other_commands_as_well(
    argv: list[str], environ: dict[str, str], expected: str
) -> None:
    assert read(argv, environ, CheckOptions).policy == expected


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
    assert read(argv, environ).suite == ["quick", "core"]


@pytest.mark.parametrize(("flag", "command"), [("--head-branch", UploadOptions), ("--models", QueryOptions)])
def test_what_goes_into_records_or_queries_is_utf8_but_a_directory_need_not_be(
    flag: str, command: type[Any]
) -> None:
    with pytest.raises(UsageError, match=f"{flag} cannot be .* it is text in UTF-8"):
        read([flag, "f\udcfcr"], command=command)
    assert read(["f\udcfcr"], command=UploadOptions).dir == "f\udcfcr"


def test_a_model_may_have_a_comma_in_its_name() -> None:
    models = read(["--models", "sort(100, list)", "a,b"], command=QueryOptions).models
    assert {"sort(100, list)", "a", "b"} <= {*models}


@pytest.mark.parametrize(("given", "expected"), [("auto", 0), ("16", 16)])
def test_batch_size(given: str, expected: int) -> None:
    assert read(["--batch-size", given]).batch_size == expected


@pytest.mark.parametrize(("given", "expected"), [("0.05", 0.05), ("5%", 0.05), ("0.5%", 0.005)])
def test_a_share_is_a_number_or_a_percentage(given: str, expected: float) -> None:
    assert read(["--target-ci", given]).target_ci == pytest.approx(expected)


def test_an_option_is_the_field_of_its_flag() -> None:
    for command in COMMANDS:
        assert [option.name for option in options_of(command)] == [field.name for field in fields(command)]


def test_no_option_takes_a_percentage_for_a_multiple() -> None:
    """Shares are below 1; the rest are seconds, which may be as many as one likes."""
    tables = [options_of(command) for command in COMMANDS]
    assert {option.placeholder for table in tables for option in table if option.kind is seconds} == {
        "SECONDS"
    }


def test_switches_are_words_in_the_environment() -> None:
    assert read(["--resume"]).resume is True
    found = read([], {"TORCHPERF_RESUME": "false", "TORCHPERF_TUNE": "true"})
    assert (found.resume, found.tune) == (False, True)


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--processes", "0"], "--processes cannot be '0': it is a whole number from 1"),
        (["--budget", "nan"], "--budget cannot be 'nan'"),
        (["--target-ci", "-1"], "--target-ci cannot be"),
        (
            ["--target-ci", "5"],
            "--target-ci cannot be '5': it is a share between 0 and 1, such as 0.03 or 3%",
        ),
        (["--target-ci", "%"], "--target-ci cannot be '%'"),
        (["--batch-size", "0"], "--batch-size cannot be '0': it is a whole number from 1, or auto"),
        (["--shard", "3/2"], "--shard cannot be '3/2': it is"),
        (["--shard", "0/2"], "--shard cannot be '0/2'"),
        (["--batch-size", "many"], "--batch-size cannot be 'many'"),
        (["--suite", ""], "--suite is empty: give it a value, or leave it out"),
        (["--dtype", "fp31"], "unknown value for --dtype 'fp31': did you mean fp32"),
        (
            ["--device", "gpu"],
            "--device cannot be 'gpu': it is auto, cpu, or a GPU by torch's name for it: cuda (of",
        ),
        (["--device", "rocm"], "and of AMD with ROCm"),
        (["--backend", "inductor:fast"], "unknown value for --backend"),
        (
            ["--out", "s3://bucket/records"],
            "--out cannot be 's3://bucket/records': it is a directory of this machine",
        ),
    ],
)
def test_a_bad_value_is_told_with_the_good_ones(argv: list[str], message: str) -> None:
    with pytest.raises(UsageError) as error:
        read(argv)
    assert message in str(error.value)


@pytest.mark.parametrize("flag", ["--workflow-id", "--job-id"])
def test_an_id_is_one_that_the_database_takes(flag: str) -> None:
    assert 2**64 - 1 in vars(read([flag, f"{2**64 - 1}"], command=UploadOptions)).values()
    with pytest.raises(UsageError, match=f"{flag} cannot be '{2**64}': it is a whole number from 1 to "):
        read([flag, f"{2**64}"], command=UploadOptions)


def test_a_bad_variable_is_told_by_its_name() -> None:
    with pytest.raises(UsageError, match="TORCHPERF_BUDGET cannot be 'soon'"):
        read([], {"TORCHPERF_BUDGET": "soon"})


def test_flags_are_those_of_the_contract() -> None:
    contract = (
        "config suite filter device mode dtype backend batch-size python processes target-ci budget shard tune resume "
        "benchmark-name out dry-run"
    )
    assert {f"--{name}" for name in contract.split()} <= {option.flag for option in options_of(RunOptions)}


def test_an_argument_without_a_flag_is_told_by_its_place_or_by_its_variable() -> None:
    assert read(["records"], command=UploadOptions).dir == "records"
    assert read([], {"TORCHPERF_DIR": "records"}, UploadOptions).dir == "records"
    assert read([], command=UploadOptions).dir is None


def test_of_several_arguments_each_is_taken_as_it_is() -> None:
    assert read(["a,b", "c"], command=IngestOptions).src == ["a,b", "c"]
    assert read([], {"TORCHPERF_SRC": "a\nb"}, IngestOptions).src == ["a", "b"]
    assert read([], command=IngestOptions).src == ()


def test_a_flag_may_have_another_name() -> None:
    assert read(["--device", "H100"], command=UploadOptions).device_type == "H100"


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("1790000000", 1_790_000_000),
        ("2026-09-21", 1_789_948_800),
        ("1970-01-01", 0),
        ("0", 0),
        ("2026-09-21T14:13:20Z", 1_790_000_000),
        ("2026-09-21T16:13:20+02:00", 1_790_000_000),
    ],
)
def test_a_time_is_unix_seconds_or_a_date_in_utc(given: str, expected: int) -> None:
    assert read(["--start", given], command=QueryOptions).start == expected


@pytest.mark.parametrize("given", ["yesterday", "-1", "1969-12-31", "2026-13-01", "20260921", "2026", ""])
def test_what_is_no_time_is_told(given: str) -> None:
    with pytest.raises(UsageError, match="--start"):
        read([f"--start={given}"], command=QueryOptions)


@pytest.mark.parametrize(
    ("given", "expected"),
    [("127.0.0.1:8080", ("127.0.0.1", 8080)), ("[::1]:0", ("::1", 0)), ("host:65535", ("host", 65535))],
)
def test_an_address_is_a_host_and_a_port(given: str, expected: tuple[str, int]) -> None:
    assert read(["--bind", given], command=ReceiveOptions).bind == expected


@pytest.mark.parametrize("given", ["host", ":80", "host:65536", "host:-1", "host:http"])
def test_what_is_no_address_is_told(given: str) -> None:
    with pytest.raises(UsageError, match="--bind"):
        read(["--bind", given], command=ReceiveOptions)
