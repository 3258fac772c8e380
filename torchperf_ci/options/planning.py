"""The options of ``plan``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from torchperf_ci.options.common import CONFIG
from torchperf_ci.options.keeping import STORE
from torchperf_ci.options.option import option, shared
from torchperf_ci.options.values import positive, truth

if TYPE_CHECKING:
    from collections.abc import Sequence


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
    budget: float | None = option(
        "--budget",
        "Seconds of machine time for all bisections together",
        positive,
        metavar="SECONDS",
        default="18000",
    )
    out: str | None = option(
        "--out",
        "Directory for a file of verdicts for each bisection",
        metavar="DIR",
        default="torchperf-bisections",
    )
    json: bool = option("--json", "Print the matrix as one line of JSON instead of a table", truth)
