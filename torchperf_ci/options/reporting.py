"""The options of ``report``."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from typing import TYPE_CHECKING

from torchperf_ci.options.common import CONFIG
from torchperf_ci.options.option import option, shared
from torchperf_ci.options.values import full_sha, positive_int, truth

if TYPE_CHECKING:
    from collections.abc import Sequence


def night(value: str) -> str:
    """A date such as 2026-08-31."""
    year, month, day = map(int, value.split("-"))
    return datetime.date(year, month, day).isoformat()


@dataclass(frozen=True)
class ReportOptions:
    """The options of ``torchperf report``."""

    verdicts: Sequence[str] = option(
        "--verdicts", "Files of verdicts, from check or compare", metavar="FILE", many=True
    )
    culprits: Sequence[str] = option(
        "--culprits", "Files of culprits, from bisect", metavar="FILE", many=True
    )
    to: str | None = option(
        "--to",
        "summary (of the job; elsewhere it is printed), comment (one on the pull request, updated), issues (one a "
        "cause, opened, updated and closed), or a directory for report.md and report.html",
        metavar="summary|comment|issues|DIR",
        default="summary",
    )
    unjudged: bool = option(
        "--unjudged",
        "Nothing was judged: an earlier comment says so from now on, and none is made",
        truth,
    )
    config: str | None = shared(CONFIG)
    repo: str | None = option(
        "--repo",
        "owner/name whose pull request or issues these are",
        metavar="REPO",
        default="the config's issues.repo for issues, else the job's repository",
    )
    night: str | None = option(
        "--night",
        "The night that is reported: issues count nights, and the same one again changes nothing",
        night,
        metavar="DATE",
        default="today, in UTC",
    )
    pull_request: int | None = option(
        "--pull-request", "Number of the pull request", positive_int, metavar="N", default="the job's"
    )
    head_sha: str | None = option(
        "--head-sha",
        "Commit that was measured: only a pull request whose head it still is gets the comment",
        full_sha,
        metavar="SHA",
        default="the job's",
    )
    head_repository: str | None = option(
        "--head-repository", "owner/name that this commit is in", metavar="REPO", default="the job's"
    )
    head_branch: str | None = option(
        "--head-branch", "Branch that this commit is on", metavar="NAME", default="the job's"
    )
    dry_run: bool = option(
        "--dry-run", "Write the comment or the issues to --out, and ask GitHub nothing", truth
    )
    out: str | None = option(
        "--out",
        "Where comment.md or issue-*.md are written in a dry run, and where there is no GITHUB_TOKEN",
        metavar="DIR",
        default="torchperf-report",
    )
    on_failure: str | None = option(
        "--on-failure",
        "warn: exit with 0 even where GitHub could not be told",
        metavar="error|warn",
        default="error",
        choices=("error", "warn"),
    )
