"""The results of the jobs of ``caller/plans.yml``: one that plans, and those that it planned."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from made_status import a_status

from torchperf_ci.bench.case import read_costs
from torchperf_ci.places import open_place
from torchperf_ci.series.points import Series
from torchperf_ci.stats.effect import Effect
from torchperf_ci.store.ingest import ingest_place
from torchperf_ci.store.migrations import open_store
from torchperf_ci.verdicts.verdict import Judgement, Verdict, evidence_of, read_verdicts, write_verdicts

if TYPE_CHECKING:
    from pathlib import Path

CONFIG = """
version: 1
name: nightly
runners:
  fast: {labels: [ubuntu-24.04], device: cpu, tune: true}
  "it's $(touch pwned)": {labels: [macos-15], device: cpu}
suites:
  core: {workloads: [quick], shards: 2, runners: [fast]}
  "`touch pwned`": {workloads: [quick]}
"""
GOOD, BAD, WORSE = (letter * 40 for letter in "abc")
MEASURED = ("fast-core-1-of-2", "fast-core-2-of-2", "fast-touch-pwned", "it-s-touch-pwned-touch-pwned")
BISECTED = ("fast-aaaaaaaaaa-bbbbbbbbbb", "fast-aaaaaaaaaa-cccccccccc")


def regressed(ratio: float, bad: str) -> Verdict:
    series = Series(
        "octo/perf",
        "nightly",
        "it's\n::error::pwned",
        "inference",
        "fp32",
        "eager",
        "cpu",
        "Xeon",
        "latency(ms)",
    )
    evidence = evidence_of({"last_old": {"commit": GOOD}, "first_new": {"commit": bad}})
    return Verdict(
        series, "regressed", "because", Effect(ratio, ratio, ratio, 0), 1.0, ratio, evidence=evidence
    )


@pytest.fixture(scope="session")
def night(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A configuration, a store, what one job has delivered, and what regressed in three ranges."""
    folder = tmp_path_factory.mktemp("night")
    (folder / "torchperf.yml").write_text(CONFIG)
    delivered = folder / "records" / f"torchperf-records-{MEASURED[0]}"
    delivered.mkdir(parents=True)
    (delivered / "resnet.json").write_text(json.dumps([a_status("resnet", seconds="12.5")]))
    with open_store(f"chdb://{folder}/store") as store:
        ingest_place(store, open_place(str(delivered)))
    verdicts = [regressed(1.2, WORSE), regressed(1.5, BAD), regressed(1.1, "d" * 40)]
    write_verdicts(folder / "verdicts.json", Judgement("check", "", "", verdicts))
    write_verdicts(folder / "quiet.json", Judgement("check", "", "", []))
    return folder


@pytest.fixture(scope="session")
def plans(runner: Any, night: Path) -> Any:
    """The workflow, when all is over."""
    return runner.push("plans", f"--var=NIGHT={night}")


def outputs(plans: Any, step: str) -> dict[str, str]:
    return plans.steps("plan")[step]["outputs"]


def rows(plans: Any, job: str, names: tuple[str, ...]) -> list[dict[str, Any]]:
    return [json.loads((plans.evidence / f"{job}-{name}/row.json").read_text()) for name in names]


def test_each_row_of_a_matrix_is_a_job_and_an_empty_one_is_none(plans: Any) -> None:
    jobs = ["plan", *(f"measure-{name}" for name in MEASURED), *(f"bisect-{name}" for name in BISECTED)]
    assert plans.results == dict.fromkeys(jobs, "success"), (plans.evidence / "act.log").read_text()


def test_a_job_that_measures_knows_what_on_what_and_how(plans: Any) -> None:
    found = rows(plans, "measure", MEASURED)
    assert found[1] == {
        "name": MEASURED[1],
        "runner": "fast",
        "labels": ["ubuntu-24.04"],
        "device": "cpu",
        "tune": True,
        "suite": "core",
        "shard": "2/2",
    }
    assert (found[3]["runner"], found[3]["suite"]) == ("it's $(touch pwned)", "`touch pwned`")


def test_a_job_that_bisects_finds_its_verdicts(plans: Any) -> None:
    for row, bad in zip(rows(plans, "bisect", BISECTED), (BAD, WORSE), strict=True):
        assert (row["good"], row["bad"], row["deadline"]) == (GOOD, bad, 1800)
        (verdict,) = read_verdicts(plans.evidence / "plan/bisections" / row["verdicts"]).verdicts
        assert verdict.evidence.commits.first_new.commit == bad


def test_the_outputs_name_the_jobs_and_count_the_bisections(plans: Any) -> None:
    assert outputs(plans, "plan")["names"].splitlines() == [*MEASURED]
    assert (outputs(plans, "tonight")["count"], outputs(plans, "quiet")["count"]) == ("2", "0")
    assert outputs(plans, "plan")["command"].startswith("/")


def test_the_costs_come_out_of_a_store_and_only_for_them_it_is_installed(plans: Any) -> None:
    assert read_costs(plans.evidence / "plan/costs.json") == {"cpu": {"resnet.inference.fp32.eager": 12.5}}
    assert outputs(plans, "costs")["costs"] == str(plans.evidence / "plan/costs.json")
    assert "-store/" in outputs(plans, "costs")["command"]
    assert "-store/" not in outputs(plans, "plan")["command"]


def test_what_does_not_fit_is_in_the_summary_and_a_notice(plans: Any) -> None:
    summaries = "".join(event["content"] for event in plans.commands("plan", "summary"))
    assert "Bisections tonight: 2 of 3; the budget is too small for 1" in summaries
    notices = [event["raw"] for event in plans.commands("plan", "notice")]
    assert any("Not bisected tonight" in line and "dddddddddd" in line for line in notices)


def test_nothing_hostile_is_run_or_speaks_to_the_runner(plans: Any) -> None:
    assert plans.steps("plan")["hostile"]["outcome"] == "failure"
    assert (plans.evidence / "plan/pwned").read_text() == ""
    lines = [event["raw"] for event in plans.commands("plan", "error")]
    assert lines
    assert not [line for line in lines if not line.startswith("::error title=")]
