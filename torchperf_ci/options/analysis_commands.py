"""The options of the commands that judge, plan and report: ``check``, ``history``, ``plan``, ``report``, ``watch``."""

from __future__ import annotations

import datetime
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from torchperf_ci.options.option import (
    CONFIG,
    FORMAT,
    JSON,
    REGION,
    STORE,
    failure_option,
    full_sha,
    local_directory,
    moment,
    option,
    positive_int,
    seconds,
    share,
    shared,
    switch,
)
from torchperf_ci.places import REMOTE_FORMS


@dataclass(frozen=True)
class CheckOptions:
    """Judge records against history; exit with 1 if something regressed or is broken.

    torchperf check records --against store --store clickhouse://user@host/benchmark
    """

    new_dir: str | None = option(
        "New records: a directory or a file; if it holds several runs, all count as new",
        positional=True,
    )
    expect: Sequence[str] = option(
        "Jobs expected to have measured, by their names in `torchperf plan`; a note appears if "
        "NEW_DIR/torchperf-records-NAME holds no records",
        metavar="NAME",
        many=True,
    )
    against: str | None = option(
        "History to judge against: store, any upload target that can be read "
        f"({REMOTE_FORMS}, a directory, chdb://PATH, clickhouse://USER@HOST/DATABASE), or a baseline file",
        metavar="store|PLACE|FILE",
        otherwise="store if one is configured, else the config's upload if it can be read, else store",
    )
    format: str | None = shared(FORMAT)
    store: str | None = shared(STORE)
    role: str | None = option(
        "ARN of the role to assume with the job's OIDC token, to read a bucket",
        metavar="ARN",
        otherwise="the config's, else the available credentials",
    )
    region: str | None = shared(REGION)
    policy: str | None = option(
        "Project configuration file, whose policy says when a change matters",
        metavar="FILE",
        otherwise="torchperf.yml, if it exists",
        aliases=("--config",),
        other_variables=("TORCHPERF_CONFIG",),
    )
    branch: str | None = option(
        "Branch of the history",
        metavar="NAME",
        otherwise="all of a given directory or file, else the branch that the job's pull request or merge "
        "queue merges into, else the records' branch, else the job's",
    )
    repo_name: str | None = option(
        "owner/name that was measured, if the records do not say",
        metavar="REPO",
        otherwise="the one in the history",
    )
    out: str = option("File to write the verdicts to", metavar="FILE", default="verdicts.json")
    on_failure: str = failure_option("something regressed or records were refused")
    sensitivity: bool = switch(
        "Do not judge; show how small a change the gate would have detected in the past",
    )
    calibrate: bool = switch(
        "Do not judge; show how many false alarms the gate would have raised in the past",
    )
    json: bool = shared(JSON)


@dataclass(frozen=True)
class BaselineUpdateOptions:
    """Update the committed baseline of the machines that measured the records, and keep the others.

    torchperf baseline update --reason 'PyTorch 2.13' records
    """

    dir: str | None = option(
        "Records to make the baseline from: several runs, which show the noise", positional=True
    )
    format: str | None = shared(FORMAT)
    reason: str | None = option("Why the baseline is updated; stored in the file", metavar="TEXT")
    baseline: str = option(
        "Baseline file; its baselines for other fingerprints are kept",
        metavar="FILE",
        default="baseline.json",
    )


@dataclass(frozen=True)
class HistoryOptions:
    """Show what changed when: the levels of every series over its stored history.

    torchperf history --store clickhouse://user@host/benchmark --branch main --since 2026-01-01
    """

    store: str | None = shared(STORE)
    records: str | None = option("Directory or file of records to read instead of a store", metavar="PATH")
    format: str | None = shared(FORMAT)
    csv: Sequence[str] = option(
        "Files to read instead of a store, one series each: two columns, index,value, oldest first",
        metavar="FILE",
        many=True,
    )
    config: str | None = shared(CONFIG)
    min_effect: float = option("Smallest relative change that counts as a change", share, default="0.01")
    direction: str = option(
        "Which direction is better in the --csv files; both if unknown",
        default="both",
        choices=("up", "down", "both"),
    )
    branch: str | None = option(
        "Only results of this branch, or without a branch",
        metavar="NAME",
        otherwise="the trunk: the branch measured on most days, or main or master if on at least half as many",
    )
    since: int | None = option("Only changes since this time: Unix seconds, or a date in UTC", moment)
    json: bool = shared(JSON)


@dataclass(frozen=True)
class PlanOptions:
    """Turn torchperf.yml into measuring jobs, or regressions into bisecting jobs.

    torchperf plan --costs costs.json --json
    """

    config: str | None = shared(CONFIG)
    costs: str | None = option(
        "File to write each case's cost in recent runs to, for `torchperf run --costs`",
        metavar="FILE",
    )
    store: str | None = shared(STORE)
    verdicts: Sequence[str] = option(
        "Verdicts files: plan bisections of what regressed, instead of measurements",
        metavar="FILE",
        many=True,
    )
    records: str | None = option(
        "Directory with a folder torchperf-records-NAME for the records of each measuring job NAME",
        metavar="DIR",
    )
    budget: float = option(
        "Seconds of machine time for all bisections together",
        seconds,
        default="18000",
    )
    out: str = option(
        "Directory to write one verdicts file per bisection to",
        metavar="DIR",
        default="torchperf-bisections",
    )
    json: bool = switch("Print the matrix as one line of JSON instead of a table")


def report_target(value: str) -> str:
    """``summary``, ``comment``, ``issues`` or a directory of this machine, as ./NAME if it has a colon."""
    return local_directory(value)


def night(value: str) -> str:
    """A date such as 2026-08-31."""
    year, month, day = map(int, value.split("-"))
    return datetime.date(year, month, day).isoformat()


@dataclass(frozen=True)
class ReportOptions:
    """Report verdicts and culprits in the job's summary, on the pull request, or in issues.

    torchperf report --verdicts verdicts.json --to comment --repo pytorch/pytorch --pull-request 1234
    """

    verdicts: Sequence[str] = option("Verdicts files from check or compare", metavar="FILE", many=True)
    culprits: Sequence[str] = option("Culprits files from bisect", metavar="FILE", many=True)
    to: Sequence[str] = option(
        "summary (the job's; printed outside a job), comment (one on the pull request, kept up to date), issues (one "
        "per cause, opened, updated and closed), or a directory for report.md and report.html; or several of them",
        report_target,
        metavar="summary|comment|issues|DIR",
        otherwise="summary",
        many=True,
    )
    unjudged: bool = switch(
        "Nothing was judged: update an existing comment to say so, but do not create one",
    )
    config: str | None = shared(CONFIG)
    repo: str | None = option(
        "owner/name that has the pull request or issues",
        metavar="REPO",
        otherwise="the config's issues.repo for issues, else the job's repository",
    )
    night: str | None = option(
        "Night to report: issues count nights, and the same night again changes something only if its results do",
        night,
        metavar="DATE",
        otherwise="today, in UTC",
    )
    pull_request: int | None = option("Number of the pull request", positive_int, otherwise="the job's")
    head_sha: str | None = option(
        "Commit that was measured; only a pull request that still has it as its head gets the comment",
        full_sha,
        metavar="SHA",
        otherwise="the job's",
    )
    head_repository: str | None = option(
        "owner/name that contains this commit", metavar="REPO", otherwise="the job's"
    )
    head_branch: str | None = option(
        "Branch that contains this commit", metavar="NAME", otherwise="the job's"
    )
    dry_run: bool = switch("Write the comment or issues to --out without contacting GitHub")
    out: str = option(
        "Directory to write comment.md or issue-*.md to in a dry run or without a GITHUB_TOKEN",
        metavar="DIR",
        default="torchperf-report",
    )
    on_failure: str = failure_option("the report could not be sent to GitHub")


_UNITS = {"m": "minutes", "h": "hours", "d": "days"}


def duration(value: str) -> timedelta:
    """A length of time above 0, such as 90m, 36h or 2d."""
    match = re.fullmatch(r"(\d{1,4})([mhd])", value)
    if not match or not int(match[1]):
        raise ValueError
    return timedelta(**{_UNITS[match[2]]: int(match[1])})


@dataclass(frozen=True)
class WatchOptions:
    """Open an issue if a scheduled workflow did not run or failed, and close it when it runs again.

    torchperf watch --workflow nightly.yml --within 36h --repo pytorch/pytorch --dry-run
    """

    workflow: str = option(
        "Workflow file in .github/workflows whose schedule to watch",
        metavar="FILE",
        default="nightly.yml",
    )
    within: timedelta = option(
        "Maximum time since the last successful run started: the schedule's interval plus a few hours of slack",
        duration,
        metavar="TIME",
        default="36h",
    )
    branch: str | None = option("Only runs on this branch", metavar="NAME", otherwise="all")
    repo: str | None = option(
        "owner/name that has the workflow and the issue",
        metavar="REPO",
        otherwise="the job's repository",
    )
    dry_run: bool = switch("Query GitHub and print the issue, but change nothing")
