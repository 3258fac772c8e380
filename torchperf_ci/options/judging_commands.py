"""The options of the commands that judge, plan and report: ``check``, ``history``, ``plan``, ``report``, ``watch``."""

from __future__ import annotations

import datetime
import re
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from torchperf_ci.options.option import (
    CONFIG,
    FORMAT,
    JSON,
    REGION,
    STORE,
    failure_option,
    full_sha,
    moment,
    option,
    positive,
    positive_int,
    share,
    shared,
    truth,
)

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True)
class CheckOptions:
    """The options of ``torchperf check``."""

    new_dir: str | None = option(
        "NEW_DIR", "New records: a directory, or one file; several runs are all new", metavar="NEW_DIR"
    )
    expect: Sequence[str] = option(
        "--expect",
        "Jobs that should have measured, by their names in `torchperf plan`: where NEW_DIR/torchperf-records-NAME "
        "holds no record, a note says so",
        metavar="NAME",
        many=True,
    )
    against: str | None = option(
        "--against",
        "The past: store, wherever uploads keep records (branch:NAME[@REMOTE], s3://BUCKET[/PREFIX], a directory, "
        "chdb://PATH, clickhouse://USER@HOST/DATABASE), or a baseline file",
        metavar="store|PLACE|FILE",
        otherwise="store where one is named, else the config's upload if it can be read, else store",
    )
    format: str | None = shared(FORMAT)
    store: str | None = shared(STORE)
    role: str | None = option(
        "--role",
        "ARN of the role to assume with the job's OIDC token, to read a bucket",
        metavar="ARN",
        otherwise="the config's, else the credentials that are there",
    )
    region: str | None = shared(REGION)
    policy: str | None = option(
        "--policy",
        "The project's file, whose policy says when a change matters",
        metavar="FILE",
        otherwise="torchperf.yml, if it is there",
        aliases=("--config",),
    )
    branch: str | None = option(
        "--branch",
        "The branch of the past",
        metavar="NAME",
        otherwise="in a store what the job's pull request goes to, else the records' own, else the job's; else all",
    )
    repo_name: str | None = option(
        "--repo-name",
        "owner/name that was measured, where the records do not say",
        metavar="REPO",
        otherwise="the one that the past has",
    )
    out: str = option("--out", "File for the verdicts", metavar="FILE", default="verdicts.json")
    on_failure: str = failure_option("something regressed, or records were refused")
    sensitivity: bool = option(
        "--sensitivity", "Judge nothing: show how small a change the gate would see in the past", truth
    )
    calibrate: bool = option(
        "--calibrate",
        "Judge nothing: show how many false alarms the gate would have given in the past",
        truth,
    )
    json: bool = shared(JSON)


@dataclass(frozen=True)
class BaselineUpdateOptions:
    """The options of ``torchperf baseline update``."""

    dir: str | None = option(
        "DIR", "Records to make the baseline of: several runs, which tell what is noise", metavar="DIR"
    )
    format: str | None = shared(FORMAT)
    reason: str | None = option(
        "--reason", "Why the baseline is renewed; it is kept in the file", metavar="TEXT"
    )
    baseline: str = option(
        "--baseline",
        "The file, which keeps the baselines of other fingerprints",
        metavar="FILE",
        default="baseline.json",
    )


@dataclass(frozen=True)
class HistoryOptions:
    """The options of ``torchperf history``."""

    store: str | None = shared(STORE)
    records: str | None = option(
        "--records", "Directory or file of records, instead of a store", metavar="PATH"
    )
    format: str | None = shared(FORMAT)
    csv: Sequence[str] = option(
        "--csv",
        "Files with two columns, index,value, oldest first: one series each, instead of a store",
        metavar="FILE",
        many=True,
    )
    config: str | None = shared(CONFIG)
    min_effect: float = option(
        "--min-effect", "The smallest relative change that is one", share, metavar="X", default="0.01"
    )
    direction: str = option(
        "--direction",
        "Which way is better in the files of --csv; both: unknown",
        metavar="up|down|both",
        default="both",
        choices=("up", "down", "both"),
    )
    branch: str | None = option(
        "--branch", "Only what is of this branch, or does not say", metavar="NAME", otherwise="all"
    )
    since: int | None = option(
        "--since", "Changes from this time on: Unix seconds, or a date in UTC", moment, metavar="TIME"
    )
    json: bool = shared(JSON)


@dataclass(frozen=True)
class PlanOptions:
    """The options of ``torchperf plan``."""

    config: str | None = shared(CONFIG)
    costs: str | None = option(
        "--costs",
        "Write to this file what each case has cost in the last runs, for `torchperf run --costs`",
        metavar="FILE",
    )
    store: str | None = shared(STORE)
    verdicts: Sequence[str] = option(
        "--verdicts",
        "Files of verdicts: plan the bisections of what regressed, not what is measured",
        metavar="FILE",
        many=True,
    )
    records: str | None = option(
        "--records",
        "Directory with a folder torchperf-records-NAME of records for each job NAME that has measured",
        metavar="DIR",
    )
    budget: float = option(
        "--budget",
        "Seconds of machine time for all bisections together",
        positive,
        metavar="SECONDS",
        default="18000",
    )
    out: str = option(
        "--out",
        "Directory for a file of verdicts for each bisection",
        metavar="DIR",
        default="torchperf-bisections",
    )
    json: bool = option("--json", "Print the matrix as one line of JSON instead of a table", truth)


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
    to: str = option(
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
        otherwise="the config's issues.repo for issues, else the job's repository",
    )
    night: str | None = option(
        "--night",
        "The night that is reported: issues count nights, and the same one again changes nothing",
        night,
        metavar="DATE",
        otherwise="today, in UTC",
    )
    pull_request: int | None = option(
        "--pull-request", "Number of the pull request", positive_int, metavar="N", otherwise="the job's"
    )
    head_sha: str | None = option(
        "--head-sha",
        "Commit that was measured: only a pull request whose head it still is gets the comment",
        full_sha,
        metavar="SHA",
        otherwise="the job's",
    )
    head_repository: str | None = option(
        "--head-repository", "owner/name that this commit is in", metavar="REPO", otherwise="the job's"
    )
    head_branch: str | None = option(
        "--head-branch", "Branch that this commit is on", metavar="NAME", otherwise="the job's"
    )
    dry_run: bool = option(
        "--dry-run", "Write the comment or the issues to --out, and ask GitHub nothing", truth
    )
    out: str = option(
        "--out",
        "Where comment.md or issue-*.md are written in a dry run, and where there is no GITHUB_TOKEN",
        metavar="DIR",
        default="torchperf-report",
    )
    on_failure: str = failure_option("GitHub could not be told")


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

    workflow: str = option(
        "--workflow",
        "File in .github/workflows whose schedule is watched",
        metavar="FILE",
        default="nightly.yml",
    )
    within: timedelta = option(
        "--within",
        "How long ago a run that worked may have begun: the schedule's interval and some hours of patience",
        duration,
        metavar="TIME",
        default="36h",
    )
    branch: str | None = option("--branch", "Only its runs on this branch", metavar="NAME", otherwise="all")
    repo: str | None = option(
        "--repo",
        "owner/name of the workflow and of the issue",
        metavar="REPO",
        otherwise="the job's repository",
    )
    dry_run: bool = option("--dry-run", "Ask GitHub, print the issue, and change nothing", truth)
