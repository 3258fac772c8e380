"""The results of the jobs of ``caller/benchmarks.yml``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest


def records(directory: Path) -> list[dict]:
    return [record for file in sorted(directory.glob("*.json")) for record in json.loads(file.read_text())]


def test_every_job_ran_and_only_the_one_with_a_failing_workload_failed(benchmarks) -> None:
    expected = {"remote": "success", "failing": "failure"}
    assert benchmarks.results == expected, (benchmarks.evidence / "act.log").read_text()


def test_a_local_action_measures(benchmarks) -> None:
    outputs = benchmarks.steps("remote")["hostile-text"]["outputs"]
    assert (outputs["passed"], outputs["failed"]) == ("1", "0")
    measured = records(Path(outputs["records-dir"]))
    assert {record["model"]["name"] for record in measured} == {"caller/matmul"}
    assert "latency(ms)" in {record["metric"]["name"] for record in measured}


def test_the_summary_shows_the_table(benchmarks) -> None:
    summary = benchmarks.commands("remote", "summary")[0]["content"]
    assert "| caller/matmul |" in summary


def test_no_trace_is_left_in_the_callers_packages_environment_and_checkout(benchmarks) -> None:
    before, after = ((benchmarks.evidence / "remote" / name).read_text() for name in ("before", "after"))
    assert "torch==" in before
    assert "\nPATH=" in before
    assert after == before


def test_records_land_outside_of_the_checkout_and_apart_for_each_use(benchmarks) -> None:
    steps = benchmarks.steps("remote")
    first, second = (steps[step]["outputs"]["records-dir"] for step in ("tolerant", "road"))
    assert first != second
    assert "hostexecutor" not in first


def test_the_second_use_finds_the_toolkit_of_the_first(benchmarks) -> None:
    steps = benchmarks.steps("remote")
    commands = {steps[name]["outputs"]["command"] for name in ("setup", "hostile-text", "tolerant", "road")}
    assert len(commands) == 1
    assert commands.pop().startswith("/")


def test_hostile_text_is_data_in_the_records(benchmarks, hostile) -> None:
    outputs = benchmarks.steps("remote")["hostile-text"]["outputs"]
    directory = benchmarks.evidence / "remote" / hostile.name
    assert outputs["records-dir"] == str(directory)
    assert {record["benchmark"]["name"] for record in records(directory)} == {hostile.text}


@pytest.mark.parametrize("step", ["hostile-choice", "hostile-path"])
def test_a_hostile_choice_is_refused_as_a_whole(benchmarks, step) -> None:
    assert benchmarks.steps("remote")[step]["outcome"] == "failure"


def test_no_hostile_value_speaks_to_the_runner(benchmarks) -> None:
    lines = [event["raw"] for event in benchmarks.commands("remote", "error")]
    assert any("pwned" in line for line in lines)
    assert not [line for line in lines if not line.startswith("::error title=")]


def test_a_failing_workload_is_counted_and_annotated(benchmarks) -> None:
    step = benchmarks.steps("failing")["run"]
    assert step["outcome"] == "failure"
    assert (step["outputs"]["passed"], step["outputs"]["failed"]) == ("1", "1")
    titles = [event["kvPairs"]["title"] for event in benchmarks.commands("failing", "error")]
    assert any(title.startswith("caller/mismatch") for title in titles)


def test_a_failing_workload_is_no_failure_where_that_is_asked_for(benchmarks) -> None:
    step = benchmarks.steps("remote")["tolerant"]
    assert step["outcome"] == "success"
    assert (step["outputs"]["passed"], step["outputs"]["failed"]) == ("0", "1")


def test_the_road_takes_the_options_that_it_has_no_input_for_from_the_environment(benchmarks) -> None:
    outputs = benchmarks.steps("remote")["road"]["outputs"]
    assert (outputs["passed"], outputs["failed"]) == ("1", "0")


def test_only_what_has_an_anchor_is_set_against_it(benchmarks) -> None:
    events = benchmarks.commands("remote", "summary")
    anchored = {event["stepID"][0] for event in events if "| vs anchor |" in event["content"]}
    assert anchored == {"road"}


def test_the_road_keeps_nothing_where_nobody_says_where(benchmarks) -> None:
    outputs = benchmarks.steps("remote")["road"]["outputs"]
    assert outputs.get("uploaded", "") == ""
    assert "there is no target, so nothing is uploaded" in (benchmarks.evidence / "act.log").read_text()
