"""The results of the steps of ``caller/checks.yml``."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from made_points import START, noisy

from torchperf_ci.places import open_place
from torchperf_ci.store.ingest import ingest_place
from torchperf_ci.store.migrations import open_store

if TYPE_CHECKING:
    from pathlib import Path

DAY = 86_400


def write(folder: Path, levels: list[float], first: int) -> None:
    """A run a level, each with a case whose name is an attack."""
    for number, level in enumerate(levels, start=first):
        record = {
            "timestamp": START + number * DAY,
            "workflow_id": 100 + number,
            "run_attempt": 1,
            "job_id": 1,
            "repo": "octo/perf",
            "benchmark": {"name": "nightly", "mode": "inference", "dtype": "bf16"},
            "model": {"name": "resnet\n::error::pwned", "backend": "eager"},
            "metric": {"name": "latency(ms)", "benchmark_values": [level]},
            "runners": [{"name": "cpu", "type": "Xeon"}],
        }
        path = folder / f"run-{number}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps([record]))


@pytest.fixture(scope="session")
def kept_records(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Thirty nights, as files and in a store, and new records that are like them, and slower."""
    folder = tmp_path_factory.mktemp("records")
    write(folder / "history", noisy(10, 30), 0)
    write(folder / "fine", [10.05], 30)
    write(folder / "slow", [12.0, 12.1, 12.05], 30)
    with open_store(f"chdb://{folder}/store") as store:
        ingest_place(store, open_place(str(folder / "history")))
    return folder


@pytest.fixture(scope="session")
def checks(runner: Any, kept_records: Path) -> Any:
    """The workflow, when all is over."""
    return runner.push("checks", f"--var=RECORDS={kept_records}")


def outputs(checks: Any, step: str) -> dict[str, str]:
    return checks.steps("check")[step]["outputs"]


def test_a_regression_fails_its_step_and_with_that_the_job(checks: Any) -> None:
    assert checks.results == {"check": "success", "gate": "failure"}, (
        checks.evidence / "act.log"
    ).read_text()
    failed = {name for name, step in checks.steps("check").items() if step["outcome"] == "failure"}
    assert failed == {"slow", "hostile"}


@pytest.mark.parametrize(
    ("step", "code", "regressed"), [("fine", "0", "0"), ("slow", "1", "1"), ("tolerant", "0", "1")]
)
def test_the_outputs_count_and_name_the_file(checks: Any, step: str, code: str, regressed: str) -> None:
    found = outputs(checks, step)
    assert (found["exit-code"], found["regressed"], found["broken"]) == (code, regressed, "0")
    assert found["verdicts"].endswith(".json")
    assert found["command"].startswith("/")


def test_the_verdicts_land_where_they_are_asked_for_else_outside_of_the_checkout(
    checks: Any, hostile: Any
) -> None:
    assert outputs(checks, "slow")["verdicts"] == f"{checks.evidence}/check/{hostile.name}.json"
    assert "hostexecutor" not in outputs(checks, "fine")["verdicts"]


def test_the_summary_and_an_annotation_name_the_regression(checks: Any) -> None:
    summaries = "".join(event["content"] for event in checks.commands("gate", "summary"))
    assert "1 regressed" in summaries
    errors = checks.commands("gate", "error")
    assert any(event["kvPairs"]["title"].startswith("regressed: resnet") for event in errors)


def test_a_job_that_delivered_nothing_is_told(checks: Any) -> None:
    notices = [event["raw"] for event in checks.commands("check", "notice")]
    assert any("which of the 2 expected jobs measured this is not known" in line for line in notices)


def test_a_store_is_installed_for_where_it_is_the_past_and_only_there(checks: Any) -> None:
    assert "-store/" in outputs(checks, "tolerant")["command"]
    assert "-store/" not in outputs(checks, "slow")["command"]


def test_the_sensitivity_is_shown(checks: Any) -> None:
    assert outputs(checks, "blind")["exit-code"] == "0"
    assert "The least sensitive series" in "".join(
        event["msg"] for event in checks.events if "raw_output" in event
    )


def test_nothing_hostile_is_run_or_speaks_to_the_runner(checks: Any) -> None:
    assert (checks.evidence / "check/pwned").read_text() == ""
    for job in ("check", "gate"):
        lines = [event["raw"] for event in checks.commands(job, "error")]
        assert lines
        assert not [line for line in lines if not line.startswith("::error title=")]
