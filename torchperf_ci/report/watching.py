"""What ``torchperf watch`` does with its options: is the nightly still there?"""

from __future__ import annotations

import os
import sys
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

from torchperf_ci import actions
from torchperf_ci.console import say
from torchperf_ci.deadline import Deadline
from torchperf_ci.errors import CredentialsError, UsageError
from torchperf_ci.report.github import asking
from torchperf_ci.report.issues.board import Board
from torchperf_ci.report.issues.nightly import keep, written
from torchperf_ci.report.issues.texts import nightly as text
from torchperf_ci.report.runs import read_schedule
from torchperf_ci.report.schedule import look

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torchperf_ci.report.issues.nightly import Kept
    from torchperf_ci.report.schedule import Schedule, Sighting

_FILE = "nightly.yml"
_WITHIN = timedelta(hours=36)
_SECONDS = 120.0
"""Most of them that GitHub may take in all."""


def watch_command(options: Mapping[str, Any]) -> int:
    """Look, and have one issue say so where nothing runs. That it does not run is told, and no failure of this."""
    now = datetime.now(timezone.utc)
    server = os.environ.get("GITHUB_SERVER_URL") or "https://github.com"
    with asking(_repository(options), os.environ, Deadline.after(_SECONDS)) as ask:
        schedule = read_schedule(ask, server, options["workflow"] or _FILE, options["branch"])
        sighting = look(schedule, now, options["within"] or _WITHIN)
        _tell(schedule, sighting)
        if options["dry_run"]:
            _show(schedule, sighting, f"{now:%Y-%m-%d}")
        else:
            _say_kept(keep(Board(ask), schedule, sighting, f"{now:%Y-%m-%d}"))
    return 0


def _repository(options: Mapping[str, Any]) -> str:
    repository: str = options["repo"] or os.environ.get("GITHUB_REPOSITORY", "")
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


def _show(schedule: Schedule, sighting: Sighting, night: str) -> None:
    """What the issue would say."""
    if sighting.missing:
        with actions.literal(sys.stdout):
            sys.stdout.write(f"{text.title(schedule)}\n\n{written(schedule, sighting, night)}")
            sys.stdout.flush()
    say("no issue is touched: this is a dry run")


def _say_kept(kept: Kept) -> None:
    if kept.issue and kept.what not in ("remembered", "left"):
        actions.set_output("issue-url", kept.issue.url)
        say(f"{kept.what}: {kept.issue.url}")
