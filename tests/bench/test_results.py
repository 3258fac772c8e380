from __future__ import annotations

import json
import math
from dataclasses import replace
from statistics import median
from typing import Any

import pytest
from worker_answers import answers as told_by_worker

from torchperf_ci.bench.case import Case, Settings
from torchperf_ci.bench.pairs import Anchor, Pair
from torchperf_ci.bench.process import ProcessOutcome
from torchperf_ci.bench.results import CaseResult, RunSetting, records
from torchperf_ci.bench.summary import disturbance_note, headline, results_table, run_notes
from torchperf_ci.bench.worker.protocol import Built, CountedFlops, Leak
from torchperf_ci.records.record import Dependency

CASE = Case("vision/a", "training", "bf16", "eager", 8, task="classification", origin="torch")
SETTING = RunSetting(
    benchmark="nightly",
    settings=Settings("python", "cpu"),
    runner={"name": "cpu", "type": "Xeon_2c"},
    dependencies={"pytorch": Dependency(repo="pytorch/pytorch", sha="abc", version="2.13.0")},
    fingerprint="0123456789ab",
)


ON_CUDA = replace(SETTING, settings=replace(SETTING.settings, device="cuda"))
ANCHORED = replace(SETTING, anchor=Anchor("python", "torch 2.12.0 cafe"))
PAIR = Pair((math.log(1.1), math.log(1.2), math.log(1.3)), 0.5, 0.6)


def passing(latency: float, *, first: bool = False, hits: int | None = None) -> ProcessOutcome:
    answers: dict[str, dict[str, Any]] = {
        "build": {"parameters": 12},
        "first_step": {"wall": 9.0, "cpu": 8.0},
        "warm_up": {"steps": 20, "seconds": 0.3, "inner": 1, "stable": True},
        "sample": {
            "seconds": [latency * 0.9, latency, latency * 1.2],
            "inner": 1,
            "half_width": 0.01,
            "converged": True,
            "wall_per_step": latency,
            "cpu_per_step": latency,
        },
        "peak": {"device": 3 * 2**20, "host": 300 * 2**20, "host_method": "VmHWM"},
    }
    if first:
        answers["leak"] = {"device": 2048.0, "host": 512.0, "steps": 60}
        answers["phases"] = {"forward": 0.01, "backward": 0.02, "optimizer": 0.003}
        answers["flops"] = 4_000_000_000
    if hits is not None:
        answers["compilation"] = {
            "graphs": 1,
            "graph_breaks": 2,
            "recompiles": 1,
            "recompile_reasons": ["shape"],
            "cache_hits": hits,
            "cache_misses": 1 - hits,
            "cudagraph_skips": 0,
        }
    return ProcessOutcome(
        "pass", answers=told_by_worker(**answers), observed={"pressure": "0.01"}, seconds=4.0
    )


def by_name(result: CaseResult, setting: RunSetting = SETTING) -> dict[str, dict[str, Any]]:
    return {record["metric"]["name"]: record for record in records(result, setting)}


def values(result: CaseResult, setting: RunSetting = SETTING) -> dict[str, list[float]]:
    return {name: record["metric"]["benchmark_values"] for name, record in by_name(result, setting).items()}


def test_each_metric_that_is_measured_carries_one_value_a_process_in_the_unit_of_its_name() -> None:
    result = CaseResult(CASE, [passing(0.1, first=True), passing(0.2)])
    assert values(result) == {
        "status": [1.0],
        "latency(ms)": pytest.approx([100.0, 200.0]),
        "throughput(samples/s)": pytest.approx([8 / 0.15]),
        "peak_memory(MiB)": [3.0, 3.0],
        "memory_leak(KiB/iter)": [2.0],
        "flops(GFLOP)": [4.0],
    }


@pytest.mark.parametrize("latencies", [(0.03, 0.065), (0.03, 0.065, 0.04)])
def test_the_throughput_is_the_batch_over_the_latency_that_people_read(latencies) -> None:
    found = values(CaseResult(CASE, [passing(latency) for latency in latencies]))
    assert median(found["throughput(samples/s)"]) == pytest.approx(8e3 / median(found["latency(ms)"]))


def test_an_accelerators_host_memory_is_a_series_of_its_own() -> None:
    found = values(CaseResult(CASE, [passing(0.1, first=True)]), ON_CUDA)
    assert found["peak_memory(MiB)"] == [3.0]
    assert found["host_peak_memory(MiB)"] == [300.0]
    assert found["host_memory_leak(KiB/iter)"] == [0.5]


def test_compile_times_are_cold_where_the_cache_was_empty_and_warm_where_it_was_not() -> None:
    case = replace(CASE, backend="inductor")
    cold, warm = passing(0.1, first=True, hits=0), passing(0.1, hits=1)
    found = values(CaseResult(case, [cold, warm, warm]))
    assert found["compile_time(s)"] == [9.0]
    assert found["compile_cpu_time(s)"] == [8.0]
    assert found["warm_compile_time(s)"] == [9.0, 9.0]
    assert (found["graph_breaks"], found["recompiles"]) == ([2.0] * 3, [1.0] * 3)


def test_a_resumed_run_whose_cache_is_gone_does_not_call_a_cold_compilation_warm() -> None:
    case = replace(CASE, backend="inductor")
    found = values(CaseResult(case, [passing(0.1, first=True, hits=0), passing(0.1, hits=0)]))
    assert found["compile_time(s)"] == [9.0, 9.0]
    assert "warm_compile_time(s)" not in found


def test_a_compilation_without_a_cache_is_cold_each_time() -> None:
    """As with TORCHINDUCTOR_FORCE_DISABLE_CACHES=1, where inductor counts neither hits nor misses."""
    process = passing(0.1, first=True, hits=0)
    assert process.answers.compilation
    process.answers.compilation = replace(process.answers.compilation, cache_misses=0)
    found = values(CaseResult(replace(CASE, backend="inductor"), [process, process]))
    assert found["compile_time(s)"] == [9.0, 9.0]
    assert "warm_compile_time(s)" not in found


@pytest.mark.parametrize("status", ["failed", "oom", "timeout", "crashed", "unsupported"])
def test_a_failed_case_has_its_word_and_no_number(status: str) -> None:
    result = CaseResult(CASE, [passing(0.1, first=True), ProcessOutcome(status, "why", "the log")])
    found = by_name(result)
    assert list(found) == ["status"]
    metric = found["status"]["metric"]
    assert metric["benchmark_values"] == [0.0]
    assert (metric["extra_info"]["status"], metric["extra_info"]["reason"]) == (status, "why")
    assert metric["extra_info"]["log"] == "the log"
    assert metric["extra_info"]["processes"] == "2"


def test_inaccurate_has_a_status_of_its_own_and_no_latency() -> None:
    answer = {
        "agrees": False,
        "compiled_error": 0.2,
        "eager_error": 1e-6,
        "reference": "fp64",
        "compared": "outputs",
    }
    found = values(
        CaseResult(CASE, [ProcessOutcome("inaccurate", "off", answers=told_by_worker(agreement=answer))])
    )
    assert found == {"status": [0.0], "accuracy": [0.0]}


def test_what_could_not_be_measured_is_said() -> None:
    outcome = passing(0.1, first=True)
    outcome = replace(outcome, answers=replace(outcome.answers, leak=Leak(), flops=CountedFlops(0)))
    result = CaseResult(CASE, [outcome])
    assert "flops(GFLOP)" not in values(result)
    said = json.loads(by_name(result)["status"]["metric"]["extra_info"]["not_measured"])
    assert set(said) == {"memory_leak(KiB/iter)", "flops(GFLOP)"}


def test_every_record_says_what_was_run_where_and_with_which_torch() -> None:
    for record in records(CaseResult(CASE, [passing(0.1, first=True)]), SETTING):
        benchmark = record["benchmark"]
        assert (benchmark["name"], benchmark["mode"], benchmark["dtype"]) == ("nightly", "training", "bf16")
        assert benchmark["extra_info"]["fingerprint"] == "0123456789ab"
        assert benchmark["extra_info"]["batch_size"] == "8"
        assert record["model"]["name"] == "vision/a"
        assert record["model"]["backend"] == "eager"
        assert record["dependencies"]["pytorch"]["sha"] == "abc"
        assert record["runners"][0]["type"] == "Xeon_2c"


def test_the_digest_of_a_workloads_config_is_in_every_record() -> None:
    outcome = passing(0.1)
    made = replace(outcome, answers=replace(outcome.answers, build=Built(1, config="abc")))
    for record in records(CaseResult(CASE, [made]), SETTING):
        assert record["benchmark"]["extra_info"]["workload_config"] == "abc"
    for record in records(CaseResult(CASE, [outcome]), SETTING):
        assert "workload_config" not in record["benchmark"]["extra_info"]


@pytest.mark.parametrize(
    ("version", "told"),
    [
        ("5.23.0", "5.23.0"),
        ("0.28.0+cpu", "0.28.0"),
        ("0.29.0.dev20261122+cu130", "0.29.0.dev"),
    ],
)
def test_a_model_of_a_library_is_another_one_with_another_version_of_it(version: str, told: str) -> None:
    setting = replace(SETTING, dependencies={**SETTING.dependencies, "timm": Dependency(version=version)})
    case, answers = replace(CASE, origin="timm"), replace(passing(0.1).answers, build=Built(1, config="abc"))
    failed = ProcessOutcome("failed", "no such model")
    passed = replace(passing(0.1), answers=answers)
    for outcome, config in ((passed, f"abc timm {told}"), (failed, f"timm {told}")):
        for record in records(CaseResult(case, [outcome]), setting):
            assert record["benchmark"]["extra_info"]["workload_config"] == config
    for record in records(CaseResult(CASE, [passing(0.1)]), setting):
        assert "workload_config" not in record["benchmark"]["extra_info"]


def test_all_samples_are_kept() -> None:
    extra = by_name(CaseResult(CASE, [passing(0.1, first=True)]))["latency(ms)"]["metric"]["extra_info"]
    assert json.loads(extra["samples_ms"]) == [[90.0, 100.0, 120.0]]
    assert json.loads(extra["phases_ms"]) == [{"forward": 10.0, "backward": 20.0, "optimizer": 3.0}]


def test_the_anchored_series_has_one_ratio_a_pair_and_names_its_anchor() -> None:
    result = CaseResult(CASE, [passing(0.1, first=True)] * 2, [PAIR, PAIR])
    metric = by_name(result, ANCHORED)["latency_vs_anchor(ratio)"]["metric"]
    assert metric["benchmark_values"] == pytest.approx([1.2, 1.2])
    assert metric["extra_info"] == {
        "anchor": "torch 2.12.0 cafe",
        "anchor_ms": "[500.0,500.0]",
        "head_ms": "[600.0,600.0]",
        "quads": "[[1.1,1.2,1.3],[1.1,1.2,1.3]]",
    }


def test_what_the_anchor_cannot_run_has_all_other_numbers_and_the_reason() -> None:
    result = CaseResult(CASE, [passing(0.1, first=True)] * 2, [PAIR], "the anchor: crashed: SIGSEGV")
    found = by_name(result, ANCHORED)
    assert "latency(ms)" in found
    assert "latency_vs_anchor(ratio)" not in found
    said = json.loads(found["status"]["metric"]["extra_info"]["not_measured"])
    assert said == {"latency_vs_anchor(ratio)": "the anchor: crashed: SIGSEGV"}


def test_a_failed_case_has_no_ratio_either() -> None:
    result = CaseResult(CASE, [passing(0.1, first=True), ProcessOutcome("oom", "too big")], [PAIR])
    assert list(by_name(result, ANCHORED)) == ["status"]


def test_a_look_that_was_lost_is_told_and_the_number_kept() -> None:
    whole = passing(0.1, first=True)
    answers = replace(whole.answers, peak=None, leak=None, phases=None, flops=None)
    why = "timeout: no time was left for leak"
    lost = replace(whole, answers=answers, missing=dict.fromkeys(("peak", "leak", "phases", "flops"), why))
    found = by_name(CaseResult(CASE, [lost]))
    assert set(found) == {"status", "latency(ms)", "throughput(samples/s)"}
    assert json.loads(found["status"]["metric"]["extra_info"]["not_measured"]) == dict.fromkeys(
        ("memory_leak(KiB/iter)", "flops(GFLOP)", "peak_memory(MiB)", "phases"), why
    )
    assert results_table([CaseResult(CASE, [lost])]).rows[0][-2:] == ("not measured", "pass")


def test_a_look_that_one_process_lost_is_told_beside_what_the_others_found() -> None:
    lost = replace(
        passing(0.1), answers=replace(passing(0.1).answers, peak=None), missing={"peak": "no time"}
    )
    found = by_name(CaseResult(CASE, [passing(0.1, first=True), lost]))
    assert found["peak_memory(MiB)"]["metric"]["benchmark_values"] == [3.0]
    told = json.loads(found["status"]["metric"]["extra_info"]["not_measured"])
    assert told == {"peak_memory(MiB)": "in 1 of 2 processes: no time"}


def test_memory_that_graphs_hold_says_so() -> None:
    plain = passing(0.1)
    held = replace(plain, answers=replace(plain.answers, peak=replace(plain.answers.peak, held=True)))
    for outcome, extra in ((plain, {}), (held, {"method": "reserved"})):
        found = by_name(CaseResult(CASE, [outcome]), ON_CUDA)
        assert found["peak_memory(MiB)"]["metric"].get("extra_info", {}) == extra


def hot(latency: float) -> ProcessOutcome:
    plain = passing(latency)
    return replace(plain, observed={"throttling": "hardware thermal slowdown", "throttled_share": "0.4"})


def test_a_process_that_heat_slowed_down_has_no_latency_and_the_others_keep_theirs() -> None:
    result = CaseResult(CASE, [passing(0.1), hot(0.2), passing(0.3)])
    found = by_name(result)
    assert found["latency(ms)"]["metric"]["benchmark_values"] == pytest.approx([100.0, 300.0])
    assert found["status"]["metric"]["extra_info"]["void"] == (
        "the GPU was throttled (hardware thermal slowdown) in 1 of 3 processes"
    )


def test_where_heat_slowed_all_processes_down_there_is_no_latency_and_the_status_says_why() -> None:
    result = CaseResult(CASE, [hot(0.2), hot(0.3)])
    found = by_name(result)
    assert not {"latency(ms)", "throughput(samples/s)"} & set(found)
    assert found["status"]["metric"]["benchmark_values"] == [1.0]
    told = json.loads(found["status"]["metric"]["extra_info"]["not_measured"])
    assert told["latency(ms)"] == "the GPU was throttled (hardware thermal slowdown) in 2 of 2 processes"
    assert results_table([result]).rows[0][5] == "void"
    assert headline([result]) == "1 of 1 case measured, 1 without a valid time"


def test_what_lacks_a_library_is_told_with_the_command_that_installs_it() -> None:
    why = "needs timm: python -m pip install timm"
    lacking = CaseResult(CASE, [ProcessOutcome("unsupported", why)])
    fine = CaseResult(CASE, [passing(0.1, first=True)])
    assert run_notes([lacking, fine, lacking]) == [f"2 cases unsupported: {why}"]
    many = [CaseResult(CASE, [ProcessOutcome("unsupported", f"no {number}")]) for number in range(8)]
    assert run_notes(many)[5:] == [
        "1 case unsupported: no 5",
        "and 2 more, each for a reason of its own: see the records",
    ]


def test_what_a_passed_case_lacks_is_told_with_the_reason() -> None:
    complete, short = passing(0.1, first=True), passing(0.1, first=True)
    short = replace(short, answers=replace(short.answers, leak=Leak()))
    assert run_notes([CaseResult(CASE, [complete]), *[CaseResult(CASE, [short])] * 2]) == [
        "2 cases without memory_leak(KiB/iter): too few steps fit in the budget"
    ]


def test_the_power_limit_is_told_and_voids_nothing() -> None:
    capped = replace(passing(0.1), observed={"power_capped": "0.970", "gpu_sm_mhz": "1395", "seconds": "2.0"})
    result = CaseResult(CASE, [capped])
    assert result.latencies == [pytest.approx(0.1)]
    assert disturbance_note([result]) == ""
    note, *_ = run_notes([result, CaseResult(CASE, [passing(0.1)])])
    assert note == (
        "in 1 of 2 cases the GPU was at its power limit up to 97% of the time, its clock at 1395 MHz: "
        "its speed under sustained load"
    )
