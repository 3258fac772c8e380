"""Passes and failures in two directories of records."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from torchperf_ci.compare.case_verdicts import ComparisonPolicy
from torchperf_ci.compare.record_directories import compare_directories
from torchperf_ci.config import Config

if TYPE_CHECKING:
    from pathlib import Path


POLICY = ComparisonPolicy(Config())


def judged(base: Path, head: Path, policy: ComparisonPolicy = POLICY):
    [verdict] = compare_directories(base, head, policy).verdicts
    return verdict


@pytest.mark.parametrize(
    ("old", "new", "word"),
    [
        ("pass", "oom", "broken"),
        ("oom", "pass", "fixed"),
        ("pass", "pass", "unchanged"),
        ("oom", "oom", "unchanged"),
        ("pass", "unsupported", "missing"),
        ("unsupported", "pass", "missing"),
        ("oom", "unsupported", "missing"),
    ],
)
def test_outcomes(folder, old, new, word) -> None:
    def status(how: str) -> dict:
        return {
            "values": [float(how == "pass")],
            "status": how,
            "reason": "" if how == "pass" else "too large",
        }

    verdict = judged(folder("base", status=status(old)), folder("head", status=status(new)))
    assert verdict.verdict == word
    assert verdict.candidate == ((old, new) == ("pass", "unsupported")), "head may lack a kernel"
    assert (verdict.old, verdict.new) == (
        (None, None) if word == "missing" else (float(old == "pass"), float(new == "pass"))
    )


@pytest.mark.parametrize("driver", ["550", "560"])
def test_what_fails_before_its_batch_size_and_config_are_known_is_broken(folder, driver: str) -> None:
    sides = {
        side: folder(side, {"driver": number}, status={"values": [value], "status": word})
        for side, number, value, word in (("base", "550", 1.0, "pass"), ("head", driver, 0.0, "failed"))
    }
    for side, facts in (
        ("base", {"batch_size": "8", "workload_config": "1a"}),
        ("head", {"batch_size": "0"}),
    ):
        (file,) = sides[side].iterdir()
        [record] = json.loads(file.read_text())
        file.write_text(json.dumps([{**record, "benchmark": {**record["benchmark"], "extra_info": facts}}]))
    verdict = judged(sides["base"], sides["head"])
    moved = " (also changed: driver: 550 → 560)" if driver == "560" else ""
    assert (verdict.verdict, verdict.why) == ("broken", f"passes on base, but not on head: failed{moved}")


def test_a_run_has_failed_if_one_of_its_jobs_has(folder, tmp_path) -> None:
    fine, failing = {"values": [1.0], "status": "pass"}, {"values": [0.0], "status": "crashed"}
    (tmp_path / "head").mkdir()
    for number, status in enumerate([failing, fine]):
        (file,) = folder(f"head/job-{number}", status=dict(status)).iterdir()
        [record] = json.loads(file.read_text())
        file.write_text(json.dumps([{**record, "workflow_id": 7, "run_attempt": 1, "job_id": number + 1}]))
    verdict = judged(folder("base", status=fine), tmp_path / "head")
    why = "passes on base, but not on head: crashed; head fails in 1 of its 2 records"
    assert (verdict.verdict, verdict.why) == ("broken", why)


def test_a_side_that_fails_now_and_then_says_so(folder, tmp_path) -> None:
    fine, failing = {"values": [1.0], "status": "pass"}, {"values": [0.0], "status": "crashed"}
    (tmp_path / "head").mkdir()
    for number, status in enumerate([fine, failing, fine]):
        folder(f"head/run-{number}", status=dict(status))
    verdict = judged(folder("base", status=fine), tmp_path / "head")
    assert (verdict.verdict, verdict.why) == ("unchanged", "passes on both; head fails in 1 of its 3 records")


def test_a_case_that_fails_has_no_number_to_judge(folder) -> None:
    failing = {"values": [0.0], "status": "oom", "reason": "too large"}
    base = folder("base", status={"values": [1.0], "status": "pass"}, latency=[1.0] * 8)
    verdicts = compare_directories(base, folder("head", status=failing, latency=[0.0]), POLICY).verdicts
    words = {verdict.series.metric: (verdict.verdict, verdict.why) for verdict in verdicts}
    assert words["status"][0] == "broken"
    assert words["latency(ms)"] == ("missing", "head has no number: oom: too large")


@pytest.mark.parametrize(
    ("status", "why"),
    [
        ({"values": [0.0], "status": "oom", "reason": "too large"}, "not measured: oom: too large"),
        (
            {"values": [1.0], "status": "pass", "not_measured": '{"latency(ms)": "no clock"}'},
            "not measured: no clock",
        ),
        ({"values": [1.0], "status": "pass"}, "head has no such record"),
    ],
)
def test_a_number_that_is_not_there_is_explained_by_the_status_of_its_case(folder, status, why) -> None:
    base = folder("base", status={"values": [1.0], "status": "pass"}, latency=[1.0] * 8)
    verdicts = compare_directories(base, folder("head", status=status), POLICY).verdicts
    words = {verdict.series.metric: (verdict.verdict, verdict.why) for verdict in verdicts}
    assert words["latency(ms)"] == ("missing", why)


@pytest.mark.parametrize(("values", "failing"), [([0.0], True), ([1.0], False)])
def test_what_is_new_and_fails_says_so(folder, values, failing) -> None:
    head = folder("head", latency=[1.0], status=values)
    (status,) = (
        verdict
        for verdict in compare_directories(folder("base", latency=[1.0]), head, POLICY).verdicts
        if verdict.series.metric == "status"
    )
    assert status.verdict == "new"
    assert bool(status.evidence.failing) == failing
    assert status.why == (
        "fails, and base has no such record: failed" if failing else "base has no such record"
    )
