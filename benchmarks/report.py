"""The output format of all benchmarks: the machine, the date, and one Markdown table."""

from __future__ import annotations

import datetime
import platform
from importlib.metadata import version
from statistics import fmean, stdev
from typing import TYPE_CHECKING

from torchperf_ci.machine.devices import device

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


def print_table(title: str, header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table under the machine that it was measured on."""
    machine = f"{device('cpu').identity().type}, {platform.system()} {platform.release()}"
    print(
        f"{title}: {machine}, torch {version('torch')}, {datetime.datetime.now(datetime.timezone.utc):%Y-%m-%d}\n"
    )
    for row in (header, ["---"] * len(header), *rows):
        print(f"| {' | '.join(row)} |")
    print(flush=True)


def cv(values: Sequence[float]) -> float:
    """Coefficient of variation: standard deviation over mean."""
    return stdev(values) / fmean(values)
