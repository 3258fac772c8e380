"""Measure how many series per second are judged and segmented, alternating with apache-otava on the same data.

Times are CPU seconds, which depend less on other load of the machine.

python benchmarks/speed.py --otava PYTHON
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

import numpy as np
from ci_world import DEVELOPED, HELD_OUT, made
from detectors import Otava, OtavaOptions
from report import print_table

from torchperf_ci.stats.gate import judge
from torchperf_ci.stats.segmentation import change_points

if TYPE_CHECKING:
    from collections.abc import Callable

    from ci_world import World
    from numpy.typing import NDArray

    Method = Callable[[NDArray[np.float64]], object]


def gate(values: NDArray[np.float64]) -> object:
    """The statistics of `torchperf check`."""
    return judge(values, np.full(len(values), np.log(1.03)))


ROWS: tuple[tuple[str, Method, int, int, int], ...] = (
    ("the gate (`check`)", gate, 100_000, 60, 300),
    ("segmentation (`history`)", change_points, 100_000, 60, 300),
    ("segmentation (`history`)", change_points, 1_000, 500, 40),
)
"""What, how, series, points of each, and how many of the series apache-otava gets in each turn."""
TURNS = 3
CHANGING = 0.2
"""Share of the series with a step of 5%."""


def histories(series: int, points: int) -> np.ndarray:
    """Values around 20 with t₃ noise of 2%."""
    rng = np.random.default_rng(20261121)
    values = rng.standard_t(3, size=(series, points)) / np.sqrt(3) * 0.02
    steps = np.arange(points) >= rng.integers(10, points - 10, size=(series, 1))
    values += np.log(1.05) * steps * (rng.random((series, 1)) < CHANGING)
    return 20 * np.exp(values)


def row(otava: Otava, what: str, method: Method, series: int, points: int, sample: int) -> list[str]:
    """Median rates over the turns, of torchperf on all series and of otava on a part."""
    values = histories(series, points)
    ours, theirs = [], []
    for turn in range(TURNS):
        start = time.process_time()
        method(np.log(values))
        ours.append(series / (time.process_time() - start))
        part = list(values[turn * sample : (turn + 1) * sample])
        theirs.append(sample / otava.analyze(part, OtavaOptions())[1])
    rate, peer = median(ours), median(theirs)
    seconds = f"{series / rate:.1f}"
    return [what, f"{series:,} × {points}", seconds, f"{rate:,.0f}", f"{peer:,.0f}", f"{rate / peer:.0f}×"]


def row_of_ci(otava: Otava, what: str, world: World, series: int = 60) -> list[str]:
    """The same of series of many lengths, most of which change; otava on all of them."""
    values = [one.labelled.values for one in made(world, series)]
    together = np.full((series, max(map(len, values))), np.nan)
    for row, one in zip(together, values, strict=True):
        row[: len(one)] = one
    ours, theirs = [], []
    for _ in range(TURNS):
        start = time.process_time()
        change_points(np.log(together))
        ours.append(series / (time.process_time() - start))
        theirs.append(series / otava.analyze(values, OtavaOptions())[1])
    rate, peer = median(ours), median(theirs)
    points = f"{min(map(len, values))}–{max(map(len, values)):,}"
    return [
        what,
        f"{series} × {points}",
        f"{series / rate:.2f}",
        f"{rate:,.0f}",
        f"{peer:,.0f}",
        f"{rate / peer:.1f}×",
    ]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--otava", type=Path, required=True)
    with Otava(parser.parse_args().otava) as otava:
        rows = [row(otava, *given) for given in ROWS]
        rows += [
            row_of_ci(otava, "`history`, series like those of CI", DEVELOPED),
            row_of_ci(otava, "`history`, the same, 4 to 40 steps each", replace(HELD_OUT, stable=0, many=1)),
        ]
        print_table(
            "Series a CPU second",
            [
                "",
                "series × points",
                "torchperf (CPU s)",
                "series/s",
                f"apache-otava {otava.version}, series/s",
                "ratio",
            ],
            rows,
        )


if __name__ == "__main__":
    main()
