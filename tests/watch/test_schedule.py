"""The watchdog's finding from a list of workflow runs."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchperf_ci.watch import ScheduledRun, WorkflowSchedule, check_schedule

NOW = datetime(2026, 11, 21, 12, tzinfo=timezone.utc)
WITHIN = timedelta(hours=36)


def run(hours_ago: float, ended: str = "success", *, judged: bool = False) -> ScheduledRun:
    return ScheduledRun(
        int(1000 - hours_ago), NOW - timedelta(hours=hours_ago), "https://github.example/run", ended, judged
    )


def schedule(*runs: ScheduledRun, state: str = "active", days_old: float = 100) -> WorkflowSchedule:
    return WorkflowSchedule(
        "nightly.yml", "https://github.example", state, NOW - timedelta(days=days_old), runs
    )


@pytest.mark.parametrize(
    ("runs", "state", "why"),
    [
        ([run(8)], "ran", "run 992 of 2026-11-21 04:00 UTC delivered results"),
        ([run(8, "failure"), run(32)], "ran", "run 968 of 2026-11-20 04:00 UTC delivered results"),
        ([run(8, "failure", judged=True)], "ran", "run 992 of 2026-11-21 04:00 UTC delivered results"),
        ([run(36)], "ran", "run 964 of 2026-11-20 00:00 UTC delivered results"),
        ([run(37)], "absent", "its schedule has started no run since 2026-11-19 23:00 UTC"),
        ([], "absent", "its schedule has never started a run"),
        ([run(8, "failure")], "failing", "its last run failed, at 2026-11-21 04:00 UTC"),
        (
            [run(8, "cancelled"), run(32, "timed_out"), run(56), run(80, "failure")],
            "failing",
            "its last 2 runs failed, the first of them at 2026-11-20 04:00 UTC",
        ),
        ([run(8, "failure"), run(56, "failure", judged=True)], "failing", "its last run failed"),
        (
            [run(2, ""), run(26, "failure"), run(50)],
            "failing",
            "its last run failed, at 2026-11-20 10:00 UTC",
        ),
        ([run(2, ""), run(50)], "unknown", "run 998 of 2026-11-21 10:00 UTC is in progress"),
        ([run(2, "", judged=True), run(50)], "unknown", "run 998 of 2026-11-21 10:00 UTC is in progress"),
    ],
)
def test_what_is_said_of_runs(runs: list[ScheduledRun], state: str, why: str) -> None:
    sighting = check_schedule(schedule(*runs), NOW, WITHIN)
    assert sighting.state == state
    assert sighting.why.startswith(why)


def test_a_workflow_that_is_new_has_time_until_its_first_run() -> None:
    assert check_schedule(schedule(days_old=1), NOW, WITHIN).state == "unknown"
    assert check_schedule(schedule(days_old=1.6), NOW, WITHIN).state == "absent"


@pytest.mark.parametrize(
    ("state", "why"),
    [
        ("disabled_inactivity", "GitHub disabled it because nothing was committed for 60 days"),
        ("disabled_manually", "somebody disabled it"),
        ("deleted", "its file is no longer on the default branch"),
        ("frozen", "GitHub calls it frozen"),
    ],
)
def test_a_workflow_that_is_switched_off_is_told_as_such_also_while_its_last_run_is_fresh(
    state: str, why: str
) -> None:
    sighting = check_schedule(schedule(run(1), state=state), NOW, WITHIN)
    assert (sighting.state, sighting.why) == ("disabled", why)


RUNS = st.lists(
    st.builds(
        run,
        st.integers(0, 200),
        st.sampled_from(["", "success", "failure", "cancelled", "skipped"]),
        judged=st.booleans(),
    ),
    max_size=20,
).map(lambda runs: sorted(runs, key=lambda one: one.began, reverse=True))


@given(RUNS)
def test_somebody_must_know_where_nothing_worked_in_time_unless_all_that_began_goes_on(
    runs: list[ScheduledRun],
) -> None:
    sighting = check_schedule(schedule(*runs), NOW, WITHIN)
    recent = [one for one in runs if NOW - one.began <= WITHIN]
    worked = any(one.worked for one in recent)
    assert (sighting.state == "ran") == worked
    goes_on = bool(recent) and not any(one.ended for one in recent)
    assert sighting.missing == (not worked and not goes_on)
