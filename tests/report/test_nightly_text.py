from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest

from torchperf_ci.report import nightly_text as text
from torchperf_ci.report.schedule import Run, Schedule, Sighting, State

BEGAN = datetime(2026, 11, 21, 4, 17, tzinfo=timezone.utc)
PAGE = "https://github.example/octo/perf/actions/workflows/nightly.yml"


def schedule(*runs: Run, file: str = "nightly.yml") -> Schedule:
    return Schedule(file, PAGE, "active", BEGAN, runs)


def runs(count: int, ended: str = "failure", *, judged: bool = False) -> list[Run]:
    url = "https://github.example/octo/perf/actions/runs"
    return [Run(99 - n, BEGAN - timedelta(days=n), f"{url}/{n}", ended, judged) for n in range(count)]


@pytest.mark.parametrize("state", ["absent", "failing", "disabled"])
def test_it_begins_with_what_is_the_matter_and_goes_on_with_what_to_do(state: State) -> None:
    verdict, step, *_ = text.body(schedule(), Sighting(state, "so it is")).split("\n\n")
    assert f"[`nightly.yml`]({PAGE}): so it is. Meanwhile nothing is measured" in verdict
    assert step.startswith("**Next step:** open ")
    assert "{url}" not in step


def test_the_newest_runs_are_shown_and_no_more() -> None:
    shown = text.body(schedule(*runs(30)), Sighting("failing", "so it is"))
    assert "| began | run | ended as |\n| --- | --- | --- |\n| 2026-11-21 04:17 UTC | [99](https" in shown
    assert shown.count("| failure |") == text.SHOWN


def test_what_a_run_was_good_for_is_shown() -> None:
    shown = text.body(schedule(*runs(1, ""), *runs(1, judged=True)), Sighting("failing", "so it is"))
    assert "| goes on |" in shown
    assert "| failure, with verdicts |" in shown


def test_a_word_of_github_that_nobody_knows_is_text() -> None:
    shown = text.body(schedule(*runs(1, "<b>|@all #1")), Sighting("failing", "so it is"))
    assert "<b>" not in shown
    assert "@all" not in shown
    assert "#1 |" not in shown


def test_the_title_is_the_same_whatever_is_the_matter_and_short() -> None:
    assert text.title(schedule()) == "No results from the scheduled benchmarks (nightly.yml)"
    assert len(text.title(schedule(file="n" * 300))) <= 120


def test_a_file_cannot_leave_its_code_span() -> None:
    assert "[`a'b.yml`](" in text.body(schedule(file="a`b.yml"), Sighting("absent", "so it is"))
