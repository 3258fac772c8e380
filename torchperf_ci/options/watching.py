"""The options of ``watch``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timedelta

from torchperf_ci.options.option import option
from torchperf_ci.options.values import truth

_UNITS = {"m": "minutes", "h": "hours", "d": "days"}


def duration(value: str) -> timedelta:
    """A length of time above 0, such as 90m, 36h or 2d."""
    found = re.fullmatch(r"(\d{1,4})([mhd])", value)
    if not found or not int(found[1]):
        raise ValueError
    return timedelta(**{_UNITS[found[2]]: int(found[1])})


@dataclass(frozen=True)
class WatchOptions:
    """The options of ``torchperf watch``."""

    workflow: str | None = option(
        "--workflow",
        "File in .github/workflows whose schedule is watched",
        metavar="FILE",
        default="nightly.yml",
    )
    within: timedelta | None = option(
        "--within",
        "How long ago a run that worked may have begun: the schedule's interval and some hours of patience",
        duration,
        metavar="TIME",
        default="36h",
    )
    branch: str | None = option("--branch", "Only its runs on this branch", metavar="NAME", default="all")
    repo: str | None = option(
        "--repo",
        "owner/name of the workflow and of the issue",
        metavar="REPO",
        default="the job's repository",
    )
    dry_run: bool = option("--dry-run", "Ask GitHub, print the issue, and change nothing", truth)
