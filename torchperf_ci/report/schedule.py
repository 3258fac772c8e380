"""Does a workflow run as often as its schedule should make it? Pure: from what GitHub says of it to one sentence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from datetime import datetime, timedelta

State = Literal["ran", "absent", "failing", "disabled", "unknown"]
"""It did its work in time; it did not begin; it began and failed; it is switched off; it is too early to tell."""

_DISABLED = {
    "disabled_inactivity": "GitHub has switched it off, because nothing was committed for 60 days",
    "disabled_manually": "somebody has switched it off",
    "disabled_fork": "it is switched off, because this repository is a fork",
    "deleted": "its file is not on the default branch any more",
}


@dataclass(frozen=True)
class Run:
    """One run of the workflow. ``ended`` is its conclusion, empty while it goes on; ``url`` is its page.

    ``judged`` says that it left verdicts: it is red because something regressed, and has done its work.
    """

    number: int
    began: datetime
    url: str
    ended: str = ""
    judged: bool = False

    @property
    def worked(self) -> bool:
        """Whether it did what it is for."""
        return self.ended == "success" or (self.judged and bool(self.ended))


@dataclass(frozen=True)
class Schedule:
    """A workflow and the newest runs that its schedule began, newest first. ``state`` is GitHub's word for it."""

    file: str
    url: str
    state: str
    created: datetime
    runs: tuple[Run, ...] = ()


@dataclass(frozen=True)
class Sighting:
    """What is to be said of a schedule; ``why`` is a sentence without its full stop."""

    state: State
    why: str

    @property
    def missing(self) -> bool:
        """Whether somebody must know."""
        return self.state in ("absent", "failing", "disabled")


def look(schedule: Schedule, now: datetime, within: timedelta) -> Sighting:
    """Has a run that worked begun in the time ``within`` before ``now``?

    A run that goes on is no failure yet, and no success; where another one ended in time, that one counts.
    """
    if schedule.state != "active":
        return Sighting("disabled", _DISABLED.get(schedule.state, f"GitHub calls it {schedule.state}"))
    recent = [run for run in schedule.runs if run.began >= now - within]
    for run in recent:
        if run.worked:
            return Sighting("ran", f"run {run.number} of {minute(run.began)} did its work")
    failed = [run for run in recent if run.ended]
    if failed:
        return Sighting("failing", _failing(schedule))
    if recent:
        return Sighting("unknown", f"run {recent[0].number} of {minute(recent[0].began)} goes on")
    if schedule.created >= now - within:
        return Sighting("unknown", f"it is there since {minute(schedule.created)} only")
    if schedule.runs:
        return Sighting("absent", f"its schedule has begun no run since {minute(schedule.runs[0].began)}")
    return Sighting("absent", "its schedule has never begun a run")


def minute(moment: datetime) -> str:
    """``2026-11-21 04:17 UTC``."""
    return f"{moment:%Y-%m-%d %H:%M} UTC"


def _failing(schedule: Schedule) -> str:
    """How many in a row, as far as the list goes back."""
    ended = [run for run in schedule.runs if run.ended]
    row = next((index for index, run in enumerate(ended) if run.worked), len(ended))
    first = ended[row - 1]
    what = "its last run failed" if row == 1 else f"its last {row} runs failed"
    return (
        f"{what}, the first of them at {minute(first.began)}"
        if row > 1
        else f"{what}, at {minute(first.began)}"
    )
