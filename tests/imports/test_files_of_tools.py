"""Each tool's own file becomes records: every repetition, in the right unit, of the right case."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tool_files import MADE, read_made, record_of, values_of

from torchperf_ci.imports import other_tools
from torchperf_ci.imports.other_tools import parse_results
from torchperf_ci.metrics import direction_of
from torchperf_ci.series.points import comparable_facts

WRITTEN = [
    "pytest_benchmark.json",
    "pytest_benchmark_saved.json",
    "asv/ci/9e18d7e6-virtualenv-py3.11.json",
    "google_benchmark.json",
    "google_benchmark_repetitions.json",
    "google_benchmark_aggregates.json",
    "hyperfine.json",
    "hyperfine_failing.json",
    "torch_benchmark.json",
    "codspeed.json",
]
ASV = WRITTEN[2]


def made(name: str):
    return json.loads((MADE / name).read_text())


@pytest.mark.parametrize("name", WRITTEN)
def test_a_tools_own_file_becomes_records_without_a_complaint(name: str) -> None:
    reading = read_made(name)
    assert reading.records
    assert not reading.problems
    assert not reading.refused


@pytest.mark.parametrize("name", WRITTEN)
def test_the_same_file_becomes_the_same_records_each_time(name: str) -> None:
    assert [found.text for found in read_made(name).records] == [
        found.text for found in read_made(name).records
    ]


def test_pytest_benchmark_has_every_round_in_milliseconds() -> None:
    values = values_of(read_made("pytest_benchmark.json"))
    for benchmark in made("pytest_benchmark.json")["benchmarks"]:
        rounds = benchmark["stats"]["data"]
        assert len(rounds) == benchmark["stats"]["rounds"]
        assert values[benchmark["fullname"], "time(ms)"] == pytest.approx([1000 * value for value in rounds])


def test_pytest_benchmark_says_commit_branch_time_parameters_interpreter_and_machine() -> None:
    source = made("pytest_benchmark.json")
    record = record_of(read_made("pytest_benchmark.json"), "test_speed.py::test_sort[100]")
    assert record["head_sha"] == source["commit_info"]["id"]
    assert record["head_branch"] == "main"
    assert record["timestamp"] == 1795404434
    assert record["benchmark"]["extra_info"]["param.size"] == "100"
    assert record["model"]["backend"] == "CPython 3.11"
    facts = comparable_facts("time(ms)", record["runners"][0]["extra_info"], {}, {})
    assert facts == {"cpu": "AMD EPYC", "cpus": "2", "machine": "x86_64", "system": "Linux 6.8"}


def test_the_gpu_that_a_hook_of_pytest_benchmark_names_must_be_the_same_to_be_compared() -> None:
    source = made("pytest_benchmark.json")
    source["machine_info"]["gpu"] = "NVIDIA H100 80GB HBM3"
    record = parse_results(json.dumps(source).encode(), "x").records[0].record
    facts = comparable_facts("time(ms)", record["runners"][0]["extra_info"], {}, {})
    assert facts["gpu"] == "NVIDIA H100 80GB HBM3"


def test_a_saved_file_of_pytest_benchmark_without_rounds_has_its_median() -> None:
    source = made("pytest_benchmark_saved.json")["benchmarks"]
    values = values_of(read_made("pytest_benchmark_saved.json"))
    assert values == {
        (benchmark["fullname"], "time(ms)"): [pytest.approx(1000 * benchmark["stats"]["median"])]
        for benchmark in source
    }


@pytest.mark.parametrize("branch", ["(detached head)", "(unknown)", None])
def test_a_checkout_of_no_branch_names_none(branch: str | None) -> None:
    source = made("pytest_benchmark.json")
    source["commit_info"]["branch"] = branch
    record = parse_results(json.dumps(source).encode(), "x").records[0].record
    assert record["head_sha"]
    assert "head_branch" not in record


def test_what_is_under_no_version_control_names_no_commit_and_no_run() -> None:
    source = made("pytest_benchmark.json")
    source["commit_info"] |= {"id": "unversioned", "branch": "(unknown)"}
    record = parse_results(json.dumps(source).encode(), "x").records[0].record
    assert not {"head_sha", "head_branch", "workflow_id"} & record.keys()


def test_asv_has_every_sample_of_every_combination_and_says_what_failed_and_what_was_skipped() -> None:
    values, samples = values_of(read_made(ASV)), made(ASV)["results"]["speed.TimeSort.time_sort"][11]
    for case, taken in zip(["(100, 'list')", "(100, 'tuple')", "(1000, 'list')"], samples[:3], strict=True):
        model = f"speed.TimeSort.time_sort{case}"
        assert values[model, "time(ms)"] == pytest.approx([1000 * value for value in taken])
        assert values[model, "status"] == [1]
    assert values["speed.time_broken", "status"] == [0]
    assert ("speed.time_broken", "time(ms)") not in values
    skipped = record_of(read_made(ASV), "speed.TimeSort.time_sort(1000, 'tuple')", "status")
    assert skipped["metric"]["extra_info"]["status"] == "skipped"


def test_asv_has_bytes_and_the_units_of_its_tracks() -> None:
    values = values_of(read_made(ASV))
    assert values["speed.mem_list", "memory(bytes)"] == [8056]
    assert values["speed.peakmem_list", "peak_memory(bytes)"][0] > 1e6
    assert values["speed.track_length", "track_length(tokens)"] == [42]
    assert len(values["speed.timeraw_import", "time(ms)"]) == 3


def test_a_history_of_asv_reads_its_file_of_units_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a large project, it has megabytes beside thousands of results."""
    read: list[Path] = []
    monkeypatch.setattr(other_tools, "read_regular", lambda path, _: read.append(path) or b"{}")
    for commit in ("1" * 40, "2" * 40):
        content = json.dumps({**made(ASV), "commit_hash": commit}).encode()
        assert parse_results(content, "a.json", folder=Path("results/ci")).records
    assert len(read) == 1


def test_asv_says_commit_environment_and_when_it_was_committed() -> None:
    record = record_of(read_made(ASV), "speed.time_join")
    assert record["head_sha"] == made(ASV)["commit_hash"]
    assert record["timestamp"] == made(ASV)["date"] // 1000
    assert record["model"]["backend"] == "virtualenv-py3.11"


def test_benchmarks_of_asv_with_other_code_are_not_compared() -> None:
    facts = comparable_facts(
        "time(ms)", record_of(read_made(ASV), "speed.time_join")["runners"][0]["extra_info"], {}, {}
    )
    assert facts["benchmark_version"] == "4b0cdd9dd029"


@pytest.mark.parametrize("name", ["asv/benchmarks.json", "asv/ci/machine.json"])
def test_what_else_asv_keeps_is_neither_a_result_nor_a_bad_one(name: str) -> None:
    reading = read_made(name)
    assert not reading.records
    assert not reading.problems
    assert not reading.refused


def test_a_track_of_asv_may_tell_yes_or_no() -> None:
    source = made(ASV)
    source["results"]["speed.track_length"][0] = [True]
    assert values_of(parse_results(json.dumps(source).encode(), "x"))[
        "speed.track_length", "track_length"
    ] == [1]


def test_a_combination_that_asv_has_no_number_for_costs_no_other_one() -> None:
    """A ``track_…`` benchmark may return infinity, or a text, for one value of its parameter."""
    source = made(ASV)
    row = source["results"]["speed.TimeSort.time_sort"]
    row[0][0], row[11][0] = float("inf"), None
    reading = parse_results(json.dumps(source).encode(), "x")
    (refused,) = reading.refused
    assert refused.path == '$.results["speed.TimeSort.time_sort"][0][0][0]'
    assert "(100, 'list')" in refused.text
    cases = {found.record["model"]["name"] for found in reading.records}
    assert cases == {found.record["model"]["name"] for found in read_made(ASV).records} - {
        "speed.TimeSort.time_sort(100, 'list')"
    }


LONG = (
    "conda-py3.11-Cython-blosc-bottleneck-hdf5-ipython-jinja2-lxml-matplotlib-numba-openpyxl-pyarrow-pytables"
)


@pytest.mark.parametrize("end", ["-numpy1.26", "-numpy2.0"])
def test_environments_of_asv_that_differ_in_their_last_requirement_are_not_mixed(end: str) -> None:
    content = json.dumps({**made(ASV), "env_name": LONG + end}).encode()
    assert {found.record["model"]["backend"] for found in parse_results(content, "x").records} == {LONG + end}


def test_google_benchmark_has_its_repetitions_in_milliseconds_and_not_their_aggregates() -> None:
    values = values_of(read_made("google_benchmark_repetitions.json"))
    runs = [
        run
        for run in made("google_benchmark_repetitions.json")["benchmarks"]
        if run["run_name"] == "sum_of_range/100" and run["run_type"] == "iteration"
    ]
    assert len(runs) == 5
    assert values["sum_of_range/100", "time(ms)"] == pytest.approx([run["real_time"] / 1e3 for run in runs])
    assert values["sum_of_range/100", "cpu_time(ms)"] == pytest.approx(
        [run["cpu_time"] / 1e3 for run in runs]
    )


def test_google_benchmark_with_aggregates_only_has_the_median() -> None:
    values = values_of(read_made("google_benchmark_aggregates.json"))
    (median,) = (
        run["real_time"]
        for run in made("google_benchmark_aggregates.json")["benchmarks"]
        if run["name"] == "sum_of_range/1000_median"
    )
    assert values["sum_of_range/1000", "time(ms)"] == pytest.approx([median / 1e3])


def test_aggregates_before_google_benchmark_1_5_are_no_benchmarks_of_their_own() -> None:
    """They are known by their names only; what merely ends like one is a benchmark."""
    source = made("google_benchmark_repetitions.json")
    for run in source["benchmarks"]:
        for name in ("run_type", "run_name", "aggregate_name", "aggregate_unit"):
            run.pop(name, None)
    old = [run for run in source["benchmarks"] if not run["name"].endswith("_cv")]
    source["benchmarks"] = [run for run in old if not run.get("error_occurred")]
    values = values_of(parse_results(json.dumps(source).encode(), "x"))
    expected = values_of(read_made("google_benchmark_repetitions.json"))
    assert {key: expected[key] for key in values} == values
    source["benchmarks"] = [run for run in old if run["name"].endswith("_median")]
    names = {name for name, _ in values_of(parse_results(json.dumps(source).encode(), "x"))}
    assert names == {run["name"] for run in source["benchmarks"]}


def test_counters_are_metrics_whose_direction_is_not_guessed() -> None:
    reading = read_made("google_benchmark.json")
    values = values_of(reading)
    assert values["sum_of_range/100", "cache_hits"] == [7]
    assert "extra_info" not in record_of(reading, "sum_of_range/100", "cache_hits")["metric"]
    assert direction_of("cache_hits") == ""
    rate = record_of(reading, "sum_of_range/100", "items_per_second")["metric"]
    assert rate["extra_info"]["direction"] == "up"


def test_a_counter_that_divides_by_zero_is_left_out_and_the_times_are_kept() -> None:
    source = made("google_benchmark.json")
    source["benchmarks"][0] |= {"ratio": float("nan"), "rate": float("inf")}
    reading = parse_results(json.dumps(source).encode(), "results.json")
    assert not reading.refused
    assert values_of(reading) == values_of(read_made("google_benchmark.json"))


def test_a_benchmark_of_google_that_reports_an_error_has_failed_and_no_time_of_zero() -> None:
    reading = read_made("google_benchmark.json")
    assert values_of(reading)["skips", "status"] == [0]
    assert ("skips", "time(ms)") not in values_of(reading)
    assert record_of(reading, "skips", "status")["metric"]["extra_info"]["reason"] == "no such device"


def test_hyperfine_has_every_run_and_the_parameters() -> None:
    reading = read_made("hyperfine.json")
    for result in made("hyperfine.json")["results"]:
        record = record_of(reading, result["command"])
        assert record["metric"]["benchmark_values"] == pytest.approx(
            [1000 * time for time in result["times"]]
        )
        assert record["benchmark"]["extra_info"] == {"param.n": result["parameters"]["n"]}


def test_newer_versions_of_hyperfine_have_the_peak_memory_of_every_run() -> None:
    source = made("hyperfine.json")
    source["results"][0]["memory_usage_byte"] = [2_097_152, 2_101_248]
    values = values_of(parse_results(json.dumps(source).encode(), "x"))
    expected = {(source["results"][0]["command"], "peak_memory(bytes)"): [2_097_152, 2_101_248]}
    assert values == values_of(read_made("hyperfine.json")) | expected


def test_a_parameter_that_only_the_setup_of_hyperfine_uses_is_in_the_name() -> None:
    """``hyperfine --parameter-list n 1,2 --setup 'git checkout v{n}' ./run`` writes one command several times."""
    source = made("hyperfine.json")
    for result in source["results"]:
        result["command"] = "./run"
    reading = parse_results(json.dumps(source).encode(), "results.json")
    names = [f"./run (n = {result['parameters']['n']})" for result in source["results"]]
    assert list(dict.fromkeys(found.record["model"]["name"] for found in reading.records)) == names
    assert not reading.refused


def test_a_command_that_hyperfine_let_fail_has_failed() -> None:
    (found,) = read_made("hyperfine_failing.json").records
    assert found.record["metric"] == {
        "name": "status",
        "benchmark_values": [0.0],
        "extra_info": {"status": "failed", "reason": "it ended with exit code 1"},
    }


def test_torch_has_the_time_of_one_run_and_puts_measurements_of_one_task_together() -> None:
    reading, source = read_made("torch_benchmark.json"), made("torch_benchmark.json")
    eager = [entry["raw_times"][0] / 100 * 1e3 for entry in (source[0], source[3])]
    names = [
        (found.record["model"]["name"], found.record["model"].get("backend")) for found in reading.records
    ]
    assert names == [
        ("matmul: 64x64", "eager"),
        ("matmul: 64x64", "other"),
        ("matmul: 64x64, 2 threads", "eager"),
    ]
    assert reading.records[0].record["metric"]["benchmark_values"] == pytest.approx(eager)


def test_long_descriptions_of_torch_that_differ_at_their_end_are_two_series() -> None:
    source = made("torch_benchmark.json")[:2]
    for number, entry in enumerate(source):
        entry["task_spec"]["description"] = f"{'x' * 100}{number}"
    reading = parse_results(json.dumps(source).encode(), "x")
    assert [found.record["model"]["backend"][-1] for found in reading.records] == ["0", "1"]


def test_one_measurement_of_torch_needs_no_list() -> None:
    entry = made("torch_benchmark.json")[0]
    (found,) = parse_results(json.dumps(entry).encode(), "x").records
    assert found.record["model"]["name"] == "matmul: 64x64"


def test_codspeed_has_the_median_in_milliseconds() -> None:
    values = values_of(read_made("codspeed.json"))
    assert values == {
        (result["uri"], "time(ms)"): [pytest.approx(result["stats"]["median_ns"] / 1e6)]
        for result in made("codspeed.json")["benchmarks"]
    }


CUSTOM = [
    {"name": "My Custom Smaller Is Better Benchmark - CPU Load", "unit": "Percent", "value": 50},
    {
        "name": "My Custom Smaller Is Better Benchmark - Memory Used",
        "unit": "Megabytes",
        "value": 100,
        "range": "3",
        "extra": "Value for Tooltip: 25\nOptional Num #2: 100",
    },
    {"name": "start", "unit": "seconds", "value": 0.25},
    {"name": "step", "unit": "ns/iter", "value": 7},
    {"name": "rate", "unit": "MB/s", "value": 3},
]
ANY, TIMES, RATES = CUSTOM[:2], CUSTOM[2:4], CUSTOM[4:]


@pytest.mark.parametrize(
    ("given", "direction", "meant", "other", "refused"),
    [
        ("customSmallerIsBetter", "down", TIMES, "customBiggerIsBetter", RATES),
        ("customBiggerIsBetter", "up", RATES, "customSmallerIsBetter", TIMES),
    ],
)
def test_results_for_github_action_benchmark_have_the_direction_that_is_given_or_are_refused(
    given: str, direction: str, meant: list[dict], other: str, refused: list[dict]
) -> None:
    """What the unit says must not be reversed by the other format."""
    reading = parse_results(json.dumps(CUSTOM).encode(), "x", given)
    assert {found.record["metric"]["extra_info"]["direction"] for found in reading.records} == {direction}
    assert [found.record["model"]["name"] for found in reading.records] == [
        case["name"] for case in [*ANY, *meant]
    ]
    assert [json.loads(item.text) for item in reading.refused] == refused
    assert all(f"give --format {other}" in item.reasons[0] for item in reading.refused)


def test_a_time_for_github_action_benchmark_is_in_milliseconds() -> None:
    reading = parse_results(json.dumps(TIMES).encode(), "x", "customSmallerIsBetter")
    assert values_of(reading) == {("start", "time(ms)"): [250.0], ("step", "value(ns/iter)"): [7]}
