from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest

from torchperf_ci import watch
from torchperf_ci.document import Document
from torchperf_ci.markdown import to_markdown
from torchperf_ci.watch import ScheduledRun, ScheduleState, ScheduleStatus, WorkflowSchedule

BEGAN = datetime(2026, 11, 21, 4, 17, tzinfo=timezone.utc)
PAGE = "https://github.example/octo/perf/actions/workflows/nightly.yml"


def schedule(*runs: ScheduledRun, file: str = "nightly.yml") -> WorkflowSchedule:
    return WorkflowSchedule(file, PAGE, "active", BEGAN, runs)


def runs(count: int, ended: str = "failure", *, judged: bool = False) -> list[ScheduledRun]:
    url = "https://github.example/octo/perf/actions/runs"
    return [
        ScheduledRun(99 - n, BEGAN - timedelta(days=n), f"{url}/{n}", ended, judged) for n in range(count)
    ]


def body(schedule: WorkflowSchedule, status: ScheduleStatus) -> str:
    """As GitHub is given it."""
    return to_markdown(Document("", watch.nightly_document(schedule, status).blocks))


@pytest.mark.parametrize("state", ["absent", "failing", "disabled"])
def test_it_begins_with_what_is_the_matter_and_goes_on_with_what_to_do(state: ScheduleState) -> None:
    verdict, step, *_ = body(schedule(), ScheduleStatus(state, "so it is")).split("\n\n")
    assert f"[`nightly.yml`]({PAGE}): so it is. Meanwhile nothing is measured" in verdict
    assert step.startswith("**Next step:** open ")
    assert "{url}" not in step


def test_the_newest_runs_are_shown() -> None:
    shown = body(schedule(*runs(20)), ScheduleStatus("failing", "so it is"))
    assert "| began | run | result |\n| --- | --- | --- |\n| 2026-11-21 04:17 UTC | [99](https" in shown
    assert shown.count("| failure |") == 20


def test_what_a_run_was_good_for_is_shown() -> None:
    shown = body(schedule(*runs(1, ""), *runs(1, judged=True)), ScheduleStatus("failing", "so it is"))
    assert "| in progress |" in shown
    assert "| failure, with verdicts |" in shown


def test_a_word_of_github_that_nobody_knows_is_text() -> None:
    shown = body(schedule(*runs(1, "<b>|@all #1")), ScheduleStatus("failing", "so it is"))
    assert "<b>" not in shown
    assert "@all" not in shown
    assert "#1 |" not in shown


def test_the_title_is_the_same_whatever_is_the_matter_and_short() -> None:
    assert watch.nightly_title(schedule()) == "No results from the scheduled benchmarks (nightly.yml)"
    assert len(watch.nightly_title(schedule(file="n" * 300))) <= 120


def test_a_file_cannot_leave_its_code_span() -> None:
    shown = body(schedule(file="a`b.yml"), ScheduleStatus("absent", "so it is"))
    assert "[<code>a&#96;b.yml</code>](" in shown
