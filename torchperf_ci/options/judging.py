"""The options of ``check``, ``baseline update`` and ``history``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from torchperf_ci.options.common import CONFIG, JSON
from torchperf_ci.options.keeping import STORE
from torchperf_ci.options.option import option, shared
from torchperf_ci.options.values import moment, share, truth

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
        "The past: store, branch:NAME[@REMOTE] or s3://BUCKET[/PREFIX] where uploads keep records, a directory of "
        "records, or a baseline file",
        metavar="store|PLACE|DIR|FILE",
        default="store",
    )
    store: str | None = shared(STORE)
    policy: str | None = option(
        "--policy",
        "The project's file, whose policy says when a change matters",
        metavar="FILE",
        default="torchperf.yml, if it is there",
        aliases=("--config",),
    )
    branch: str | None = option(
        "--branch",
        "The branch of the past",
        metavar="NAME",
        default="in a store what the job's pull request goes to, else the records' own, else the job's; else all",
    )
    repo_name: str | None = option(
        "--repo-name",
        "owner/name that was measured, where the records do not say",
        metavar="REPO",
        default="the one that the past has",
    )
    out: str | None = option("--out", "File for the verdicts", metavar="FILE", default="verdicts.json")
    on_failure: str | None = option(
        "--on-failure",
        "warn: exit with 0 even where something regressed, or records were refused",
        metavar="error|warn",
        default="error",
        choices=("error", "warn"),
    )
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
    reason: str | None = option(
        "--reason", "Why the baseline is renewed; it is kept in the file", metavar="TEXT"
    )
    baseline: str | None = option(
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
    csv: Sequence[str] = option(
        "--csv",
        "Files with two columns, index,value, oldest first: one series each, instead of a store",
        metavar="FILE",
        many=True,
    )
    config: str | None = shared(CONFIG)
    min_effect: float | None = option(
        "--min-effect", "The smallest relative change that is one", share, metavar="X", default="0.01"
    )
    direction: str | None = option(
        "--direction",
        "Which way is better in the files of --csv; both: nobody knows",
        metavar="up|down|both",
        default="both",
        choices=("up", "down", "both"),
    )
    branch: str | None = option(
        "--branch", "Only what is of this branch, or does not say", metavar="NAME", default="all"
    )
    since: int | None = option(
        "--since", "Changes from this time on: Unix seconds, or a date in UTC", moment, metavar="TIME"
    )
    json: bool = shared(JSON)
