"""What the issue of a nightly that did not run says."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchperf_ci.actions import markdown_cell
from torchperf_ci.report.schedule import minute

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torchperf_ci.report.schedule import Run, Schedule, Sighting, State

SHOWN = 10
"""Runs in the table."""
_HEADLINES: Mapping[State, str] = {
    "absent": "The benchmarks did not run",
    "failing": "The benchmarks fail",
    "disabled": "The benchmarks are switched off",
}
_STEPS: Mapping[State, str] = {
    "absent": (
        "open [the workflow]({url}) under *Actions* and start it by hand. GitHub may begin a schedule late or leave a "
        "time out when much is asked of it: choose another minute than 0. A schedule is read from the default branch "
        "only, and ends with the membership of whoever wrote its last `cron` line."
    ),
    "failing": (
        "open the newest run below; *Re-run failed jobs* counts as a new one. Where no runner took a job, GitHub gave "
        "it up after a day: look whether the runner is online."
    ),
    "disabled": "open [the workflow]({url}) under *Actions* and choose *Enable workflow*, or bring its file back.",
}


def title(schedule: Schedule) -> str:
    """One line without markup that is the same whatever keeps the results away; at most 120 characters."""
    return f"No results from the scheduled benchmarks ({schedule.file[:70]})"


def body(schedule: Schedule, sighting: Sighting) -> str:
    """The verdict and the next step, then the newest runs; the same as long as these are the same."""
    what = f"**{_HEADLINES[sighting.state]}.** [`{_code(schedule.file)}`]({schedule.url}): {sighting.why}."
    parts = [
        f"{what} Meanwhile nothing is measured, and a regression goes unseen.",
        f"**Next step:** {_STEPS[sighting.state].format(url=schedule.url)}",
        _table(schedule.runs[:SHOWN]),
        "<sub>torchperf renews this text, and closes the issue as soon as a scheduled run has done its work.</sub>",
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def back(schedule: Schedule, sighting: Sighting) -> str:
    """The comment under which the issue is closed."""
    return f"It runs again: {_linked(schedule, sighting)}."


def _linked(schedule: Schedule, sighting: Sighting) -> str:
    worked = next((run for run in schedule.runs if run.worked), None)
    return f"[{sighting.why}]({worked.url})" if worked else sighting.why


def _table(runs: tuple[Run, ...]) -> str:
    if not runs:
        return ""
    rows = [f"| {minute(run.began)} | [{run.number}]({run.url}) | {_ended(run)} |" for run in runs]
    return "\n".join(["| began | run | ended as |", "| --- | --- | --- |", *rows])


def _ended(run: Run) -> str:
    if not run.ended:
        return "goes on"
    return f"{markdown_cell(run.ended)}, with verdicts" if run.judged else markdown_cell(run.ended)


def _code(text: str) -> str:
    """``text`` inside a code span of one backtick."""
    return text.replace("`", "'")
