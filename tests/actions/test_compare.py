"""The results of the steps of ``caller/compares.yml``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from torchperf_ci.verdicts.verdict import read_verdicts

if TYPE_CHECKING:
    from collections.abc import Mapping


@pytest.fixture(scope="session")
def compares(runner: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The workflow, when all is over."""
    folder = tmp_path_factory.mktemp("compared")
    for side, level in (("fast", 1.0), ("slow", 2.0)):
        (folder / side).mkdir()
        metric = {"name": "latency(ms)", "benchmark_values": [level + number / 1000 for number in range(8)]}
        record = {"benchmark": {"name": "made"}, "model": {"name": "made/sum"}, "metric": metric}
        (folder / side / "records.json").write_text(json.dumps([record]))
    return runner.push("compares", f"--var=RECORDS={folder}")


def step(compares: Any, name: str) -> Mapping[str, Any]:
    found: Mapping[str, Any] = compares.steps("compare")[name]
    return found


def test_what_is_slower_fails_its_step_and_is_named(compares: Any) -> None:
    slower, log = step(compares, "slower"), (compares.evidence / "act.log").read_text()
    assert slower["outcome"] == "failure", log
    outputs = slower["outputs"]
    assert (outputs["exit-code"], outputs["regressed"], outputs["broken"]) == ("1", "1", "0"), log
    judgement = read_verdicts(Path(outputs["verdicts"]))
    [verdict] = judgement.red
    assert (verdict.series.model, verdict.series.metric) == ("made/sum", "latency(ms)")
    titles = [event["kvPairs"].get("title", "") for event in compares.commands("compare", "error")]
    assert any(title.startswith("regressed: made/sum latency(ms)") for title in titles)
    assert "1 regressed" in compares.commands("compare", "summary")[0]["content"]


def test_a_regression_is_no_failure_where_that_is_asked_for(compares: Any, hostile: Any) -> None:
    tolerant = step(compares, "tolerant")
    assert (tolerant["outcome"], tolerant["outputs"]["regressed"]) == ("success", "1")
    assert tolerant["outputs"]["verdicts"] == f"{compares.evidence}/compare/{hostile.name}.json"


def test_what_nobody_can_tell_is_a_warning_and_no_red_mark(compares: Any) -> None:
    unclear = step(compares, "unclear")
    assert (unclear["outcome"], unclear["outputs"]["exit-code"]) == ("success", "5")
    assert "Leave images alone" in "".join(
        event["content"] for event in compares.commands("compare", "summary")
    )
    assert "hostexecutor" not in unclear["outputs"]["verdicts"]
    assert any(
        "The comparison is inconclusive" in event["raw"] for event in compares.commands("compare", "warning")
    )


@pytest.mark.parametrize("name", ["hostile-revision", "hostile-choice"])
def test_a_hostile_choice_is_refused_as_a_whole(compares: Any, name: str) -> None:
    assert step(compares, name)["outputs"]["exit-code"] == "2"


def test_nothing_hostile_is_run_or_speaks_to_the_runner(compares: Any) -> None:
    assert (compares.evidence / "compare/pwned").read_text() == ""
    lines = [event["raw"] for event in compares.commands("compare", "error")]
    assert any("pwned" in line for line in lines)
    assert not [line for line in lines if not line.startswith("::error title=")]


def test_no_trace_is_left_in_the_callers_packages_environment_and_checkout(compares: Any) -> None:
    before, after = ((compares.evidence / "compare" / name).read_text() for name in ("before", "after"))
    assert "torch==" in before
    assert after == before
    assert len((compares.evidence / "compare/worktrees").read_text().splitlines()) == 1
