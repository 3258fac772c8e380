"""The options of ``plan``."""

from __future__ import annotations

from torchperf_ci.options.common import CONFIG
from torchperf_ci.options.keeping import STORE
from torchperf_ci.options.option import Option
from torchperf_ci.options.values import positive, truth

PLAN_OPTIONS = (
    CONFIG,
    Option(
        "--costs",
        "Write to this file what each case has cost in the last runs, for `torchperf run --costs`",
        metavar="FILE",
    ),
    STORE,
    Option(
        "--verdicts",
        "Files of verdicts: plan the bisections of what regressed, not what is measured",
        metavar="FILE",
        many=True,
    ),
    Option(
        "--records",
        "Directory with a folder torchperf-records-NAME of records for each job NAME that has measured",
        metavar="DIR",
    ),
    Option(
        "--budget",
        "Seconds of machine time for all bisections together",
        positive,
        metavar="SECONDS",
        default="18000",
    ),
    Option(
        "--out",
        "Directory for a file of verdicts for each bisection",
        metavar="DIR",
        default="torchperf-bisections",
    ),
    Option("--json", "Print the matrix as one line of JSON instead of a table", truth),
)
