"""The options of ``check``, ``baseline update`` and ``history``."""

from __future__ import annotations

from torchperf_ci.options.common import CONFIG, JSON
from torchperf_ci.options.keeping import STORE
from torchperf_ci.options.option import Option
from torchperf_ci.options.values import moment, share, truth

CHECK_OPTIONS = (
    Option("NEW_DIR", "New records: a directory, or one file; several runs are all new", metavar="NEW_DIR"),
    Option(
        "--expect",
        "Jobs that should have measured, by their names in `torchperf plan`: where NEW_DIR/torchperf-records-NAME "
        "holds no record, a note says so",
        metavar="NAME",
        many=True,
    ),
    Option(
        "--against",
        "The past: store, branch:NAME[@REMOTE] or s3://BUCKET[/PREFIX] where uploads keep records, a directory of "
        "records, or a baseline file",
        metavar="store|PLACE|DIR|FILE",
        default="store",
    ),
    STORE,
    Option(
        "--policy",
        "The project's file, whose policy says when a change matters",
        metavar="FILE",
        default="torchperf.yml, if it is there",
        aliases=("--config",),
    ),
    Option(
        "--branch",
        "The branch of the past",
        metavar="NAME",
        default="in a store what the job's pull request goes to, else the records' own, else the job's; else all",
    ),
    Option(
        "--repo-name",
        "owner/name that was measured, where the records do not say",
        metavar="REPO",
        default="the one that the past has",
    ),
    Option("--out", "File for the verdicts", metavar="FILE", default="verdicts.json"),
    Option(
        "--on-failure",
        "warn: exit with 0 even where something regressed, or records were refused",
        metavar="error|warn",
        default="error",
        choices=("error", "warn"),
    ),
    Option("--sensitivity", "Judge nothing: show how small a change the gate would see in the past", truth),
    Option(
        "--calibrate",
        "Judge nothing: show how many false alarms the gate would have given in the past",
        truth,
    ),
    JSON,
)

BASELINE_UPDATE_OPTIONS = (
    Option("DIR", "Records to make the baseline of: several runs, which tell what is noise", metavar="DIR"),
    Option("--reason", "Why the baseline is renewed; it is kept in the file", metavar="TEXT"),
    Option(
        "--baseline",
        "The file, which keeps the baselines of other fingerprints",
        metavar="FILE",
        default="baseline.json",
    ),
)

HISTORY_OPTIONS = (
    STORE,
    Option("--records", "Directory or file of records, instead of a store", metavar="PATH"),
    Option(
        "--csv",
        "Files with two columns, index,value, oldest first: one series each, instead of a store",
        metavar="FILE",
        many=True,
    ),
    CONFIG,
    Option("--min-effect", "The smallest relative change that is one", share, metavar="X", default="0.01"),
    Option(
        "--direction",
        "Which way is better in the files of --csv; both: nobody knows",
        metavar="up|down|both",
        default="both",
        choices=("up", "down", "both"),
    ),
    Option("--branch", "Only what is of this branch, or does not say", metavar="NAME", default="all"),
    Option("--since", "Changes from this time on: Unix seconds, or a date in UTC", moment, metavar="TIME"),
    JSON,
)
