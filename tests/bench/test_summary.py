"""The summary that a run prints at its end."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from html import unescape

import pytest
from worker_answers import answers as told_by_worker

from torchperf_ci.bench.case import Case, Settings
from torchperf_ci.bench.pairs import Pair
from torchperf_ci.bench.process import ProcessOutcome
from torchperf_ci.bench.results import CaseResult, RunSetting, records
from torchperf_ci.bench.summary import disturbance_note, headline, results_as_json, run_document, run_notes
from torchperf_ci.console import print_document
from torchperf_ci.markdown import to_markdown
from torchperf_ci.records.record import Dependency, extra_info_strings

CASE = Case("vision/a", "inference", "fp32", "eager", 8)
SETTING = RunSetting(
    "nightly",
    Settings("python", "cpu"),
    {"type": "Xeon", "extra_info": {}},
    {"pytorch": Dependency(sha="abc")},
    "",
)
QUIET = {"seconds": "3.000", "cpus": "2", "load": "1.00", "other_cpus": "0.05", "cpu_pressure": "0.010"}
BUSY = {"seconds": "3.000", "cpus": "2", "load": "9.00", "other_cpus": "1.70", "cpu_pressure": "0.930"}
SENTENCE = "load 9.0 on 2 CPUs, 1.7 of them used by other work; tasks waited for a CPU 93% of the time"


def outcome(seconds: float = 0.1, observed: dict[str, str] = QUIET) -> ProcessOutcome:
    answers = {
        "sample": {
            "seconds": [seconds],
            "inner": 1,
            "half_width": 0.01,
            "converged": True,
            "wall_per_step": seconds,
            "cpu_per_step": seconds,
        },
        "peak": {"device": 1, "host": 1, "host_method": "VmHWM"},
    }
    return ProcessOutcome("pass", answers=told_by_worker(**answers), observed=observed, seconds=4.0)


def results(*processes: list[ProcessOutcome]) -> list[CaseResult]:
    return [CaseResult(replace(CASE, workload=f"a/{n}"), row) for n, row in enumerate(processes)]


def test_one_case_is_no_cases() -> None:
    assert headline(results([outcome()])) == "1 of 1 case measured"
    assert headline(results([outcome()], [outcome()])) == "2 of 2 cases measured"


def test_a_quiet_run_has_no_mark() -> None:
    quiet = results([outcome(), outcome(0.104)])
    assert disturbance_note(quiet) == ""
    assert "⚠" not in to_markdown(run_document(quiet, SETTING))
    assert "disturbed" not in json.dumps(records(quiet[0], SETTING))
    assert results_as_json(quiet, SETTING)[0]["disturbed"] is None
    assert results_as_json(quiet, SETTING)[0]["spread"] == pytest.approx(0.04)


def test_a_run_on_a_busy_machine_is_marked_everywhere() -> None:
    busy = results([outcome(observed=BUSY), outcome(observed=BUSY)])
    assert disturbance_note(busy) == f"⚠ disturbed during the measurement: {SENTENCE}"
    page = unescape(to_markdown(run_document(busy, SETTING)))
    assert page.startswith("### ⚠️ nightly: 1 of 1 case measured\n")
    assert "\n> ⚠ disturbed during the measurement: load 9.0 on 2 CPUs" in page
    assert results_as_json(busy, SETTING)[0]["disturbed"] == SENTENCE
    told = {
        found["metric"]["name"]: found["metric"].get("extra_info", {}) for found in records(busy[0], SETTING)
    }
    assert extra_info_strings(told["status"])["disturbed"] == SENTENCE
    assert extra_info_strings(told["latency(ms)"])["disturbed"] == SENTENCE


def test_a_terminal_has_the_rows_and_a_page_the_reasons_and_the_machine_as_well() -> None:
    setting = replace(SETTING, runner={"type": "Xeon", "extra_info": {"governor": "powersave"}})
    some = results([outcome()], [ProcessOutcome("crashed", "SIGSEGV | in `step`")])
    document, out = run_document(some, setting), io.StringIO()
    print_document(document, out)
    heads, fine, crashed = out.getvalue().splitlines()
    assert heads.split()[:2] == ["workload", "mode"]
    assert (fine.split()[-1], crashed.split()[-1]) == ("pass", "crashed")
    page = unescape(to_markdown(document))
    assert "- **a/1 inference fp32 eager batch 8** — crashed: SIGSEGV | in `step`\n" in page
    assert "| a/1 | inference | fp32 | eager | 8 |  |  |  |  | ❌ crashed |" in page
    assert "<summary>Machine</summary>\n\n| fact | value |\n| --- | --- |\n| governor | powersave |" in page


def test_no_row_is_left_out_on_a_terminal() -> None:
    many, out = results(*[[outcome()]] * 150), io.StringIO()
    print_document(run_document(many, SETTING), out, most=len(many))
    assert len(out.getvalue().splitlines()) == 151


def test_the_name_of_a_series_and_what_it_is_comparable_by_do_not_depend_on_it() -> None:
    quiet, busy = (records(*results([outcome(observed=facts)]), SETTING) for facts in (QUIET, BUSY))
    for before, after in zip(quiet, busy, strict=True):
        for part in ("benchmark", "model", "runners"):
            assert before[part] == after[part]


def test_where_only_some_cases_were_disturbed_it_says_how_many() -> None:
    some = results([outcome(observed=BUSY)], *[[outcome(), outcome(), outcome()]] * 20)
    assert disturbance_note(some) == f"⚠ disturbed during the measurement (1 of 21 cases): {SENTENCE}"


def test_processes_that_lie_far_apart_are_told() -> None:
    apart = results([outcome(0.1), outcome(0.13)], [outcome(0.1), outcome(0.12)])
    assert disturbance_note(apart) == "⚠ disturbed during the measurement: processes of a case differ by 25%"


def test_a_case_that_failed_on_a_busy_machine_says_so() -> None:
    late = results([ProcessOutcome("timeout", "first_step took longer than 300 s", observed=BUSY)])
    assert SENTENCE in disturbance_note(late)
    (status,) = records(late[0], SETTING)
    assert status["metric"]["extra_info"]["disturbed"] == SENTENCE


def test_pairs_with_the_anchor_count() -> None:
    pair = Pair((0.0,), 0.1, 0.1, observed={**BUSY, "seconds": "30.000"})
    assert SENTENCE.partition(",")[0] in disturbance_note([CaseResult(CASE, [outcome()], [pair])])


def test_what_long_steps_cost_is_said() -> None:
    long = outcome(25.0)
    long.answers.sample = replace(long.answers.sample, seconds=(25.0, 25.0))
    note, *_ = run_notes(results([long, long], [outcome()]))
    assert "a step of a/0" in note
    assert "25 s: each process took 2 samples instead of at least 5, and the case took 8 s" in note
    assert note.endswith("raise --budget to 125")
