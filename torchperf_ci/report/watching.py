"""What ``torchperf watch`` does with its options: is the nightly still there?"""

from __future__ import annotations

import os
import sys
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

from torchperf_ci import actions
from torchperf_ci.console import say
from torchperf_ci.deadline import Deadline
from torchperf_ci.errors import CredentialsError, NotDeliveredError, UsageError
from torchperf_ci.report import nightly_text as text
from torchperf_ci.report.github import asking
from torchperf_ci.report.issues.board import Board
from torchperf_ci.report.issues.causes.finding import Finding
from torchperf_ci.report.issues.causes.fingerprint import fingerprint
from torchperf_ci.report.issues.life.lifecycle import plan
from torchperf_ci.report.issues.life.rules import Rules
from torchperf_ci.report.issues.publishing import Tonight, publish
from torchperf_ci.report.issues.texts.context import Context
from torchperf_ci.report.issues.texts.text import text_of
from torchperf_ci.report.runs import read_schedule
from torchperf_ci.report.schedule import look

if TYPE_CHECKING:
    from torchperf_ci.options import WatchOptions
    from torchperf_ci.report.issues.publishing import Published
    from torchperf_ci.report.schedule import Schedule, Sighting

_FILE = "nightly.yml"
_WITHIN = timedelta(hours=36)
_SECONDS = 120.0
"""Most of them that GitHub may take in all."""


def watch_command(options: WatchOptions) -> int:
    """Look, and have one issue say so where nothing runs. That it does not run is told, and no failure of this."""
    now = _now()
    server = os.environ.get("GITHUB_SERVER_URL") or "https://github.com"
    with asking(_repository(options), os.environ, Deadline.after(_SECONDS)) as ask:
        schedule = read_schedule(ask, server, options.workflow or _FILE, options.branch)
        sighting = look(schedule, now, options.within or _WITHIN)
        _tell(schedule, sighting)
        tonight = _tonight(schedule, sighting, f"{now:%Y-%m-%d}")
        if options.dry_run:
            _show(tonight)
        else:
            _tell_published(publish(Board(ask), tonight))
    return 0


def _now() -> datetime:
    return datetime.now(timezone.utc)


def _tonight(schedule: Schedule, sighting: Sighting, night: str) -> Tonight:
    """What there is to publish on ``night`` (ISO date). One run is enough to close the issue."""
    name = fingerprint("nightly", schedule.file)
    title, body = text.title(schedule), text.body(schedule, sighting) if sighting.missing else ""
    missing = Finding("nightly", name, (), why=sighting.why, title=title, text=body)
    return Tonight(
        [missing] if sighting.missing else [],
        verdicts=(),
        rules=Rules(night, recovered_nights=1, max_per_night=sys.maxsize, kinds=("nightly",)),
        context=lambda _: Context(night),
        over={name: text.back(schedule, sighting)} if sighting.state == "ran" else {},
    )


def _repository(options: WatchOptions) -> str:
    repository: str = options.repo or os.environ.get("GITHUB_REPOSITORY", "")
    if not repository:
        msg = "watch which repository? give --repo"
        raise UsageError(msg)
    if not os.environ.get("GITHUB_TOKEN"):
        msg = "GitHub is asked for runs, and there is no GITHUB_TOKEN: it needs actions: read, and issues: write"
        raise CredentialsError(msg)
    return repository


def _tell(schedule: Schedule, sighting: Sighting) -> None:
    """To whoever reads the log, the summary or the step's outputs."""
    line = f"{schedule.file}: {sighting.why}"
    say(line)
    actions.set_output("ran", str(not sighting.missing).lower())
    if sighting.missing:
        actions.annotate([actions.Annotation("error", line, title="No results")])
        actions.append_summary(text.body(schedule, sighting))
    else:
        actions.append_summary(f"{actions.markdown_cell(line)}\n")


def _show(tonight: Tonight) -> None:
    """What the issue would say."""
    for action in plan(tonight.findings, tonight.verdicts, (), tonight.rules).actions:
        written = text_of(action, tonight.context(action))
        with actions.literal(sys.stdout):
            sys.stdout.write(f"{written.title}\n\n{written.body}")
            sys.stdout.flush()
    say("no issue is touched: this is a dry run")


def _tell_published(done: Published) -> None:
    """Where the issue is. Raises :class:`NotDeliveredError` where it could not be kept."""
    lists = {
        "opened": done.opened,
        "reopened": done.reopened,
        "standing": done.standing,
        "closed": done.closed,
    }
    for word, issues in lists.items():
        for issue in issues:
            actions.set_output("issue-url", issue.url)
            say(f"{word}: {issue.url}")
    for note in (*done.settled, *done.notes):
        say(note)
    if done.failed:
        msg = f"not told: {'; '.join(done.failed)}"
        raise NotDeliveredError(msg)
