"""Test on simulated histories whether τ lies in its estimated interval, and whether build luck is taken for a change.

python benchmarks/build_luck.py [--held-out]
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from report import print_table

from torchperf_ci.stats.build_variance import estimate_tau
from torchperf_ci.verdicts.verdict import MIN_CHANCE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

TAUS = (0.0, 0.003, 0.01)
REPETITIONS = 200


@dataclass(frozen=True)
class Cell:
    """Histories of several series: ``again`` is the share of wheels that are measured once more, ``freedom`` that of
    the noise's Student distribution, ``shared`` what is in all series of a run, and ``steps`` the share of runs that
    change a level, by 5%."""

    series: int
    runs: int
    again: float
    sigma: float
    freedom: float = 5.0
    shared: float = 0.0
    steps: float = 0.01


DEVELOPED = (
    Cell(1, 60, 0.3, 0.01),
    Cell(20, 60, 0.3, 0.01),
    Cell(20, 60, 0.3, 0.01, shared=0.01),
    Cell(20, 60, 0.3, 0.003, shared=0.003),
    Cell(20, 60, 0.0, 0.01),
)
HELD_OUT = (
    Cell(4, 35, 0.5, 0.006, freedom=4, steps=0.03),
    Cell(12, 120, 0.1, 0.015, freedom=3, shared=0.004),
    Cell(40, 90, 0.15, 0.004, freedom=8, shared=0.008, steps=0.02),
    Cell(8, 150, 0.6, 0.02, freedom=4),
    Cell(6, 45, 0.0, 0.002, freedom=4),
)


def histories(cell: Cell, tau: float, rng: np.random.Generator) -> tuple[Floats, NDArray[np.int64], Floats]:
    """Values and builds, both (series, runs), and the τ of each series."""
    shape = (cell.series, cell.runs)
    builds = np.cumsum(rng.random(cell.runs) >= cell.again)
    own = tau * np.exp(rng.normal(0, 0.3, size=(cell.series, 1)))
    offsets = own * rng.normal(size=(cell.series, cell.runs + 1))
    sigma = cell.sigma * np.exp(rng.normal(0, 0.5, size=(cell.series, 1)))
    noise = sigma * rng.standard_t(cell.freedom, size=shape) / np.sqrt(cell.freedom / (cell.freedom - 2))
    levels = np.cumsum((rng.random(shape) < cell.steps) * rng.normal(0, 0.05, size=shape), axis=1)
    values = offsets[:, builds] + noise + levels + cell.shared * rng.normal(size=cell.runs)
    return values, np.broadcast_to(builds, shape), own[:, 0]


def row(cell: Cell, tau: float) -> list[str]:
    """What is found in one cell."""
    rng = np.random.default_rng([20261204, cell.runs, int(1e5 * tau)])
    found, inside, lucky = [], [], []
    for _ in range(REPETITIONS):
        values, builds, own = histories(cell, tau, rng)
        between_two = own * np.sqrt(2) * rng.normal(size=own.size)
        for luck, true, change in zip(estimate_tau(values, builds), own, between_two, strict=True):
            found.append(luck.tau)
            inside.append(luck.quantile(0.025) <= true <= luck.quantile(0.975))
            lucky.append(change > 0 and luck.chance(change, (1, 1)) <= MIN_CHANCE)
    what = f"{cell.series} × {cell.runs}, σ {cell.sigma:.1%}, {cell.again:.0%} again"
    shared = f", {cell.shared:.1%} in all" if cell.shared else ""
    interval = f"{np.mean(inside):.0%}" if tau else ""
    return [what + shared, f"{tau:.1%}", f"{np.median(found):.2%}", interval, f"{np.mean(lucky):.1%}"]


def _rows(cells: tuple[Cell, ...]) -> Iterator[list[str]]:
    for cell in cells:
        yield from (row(cell, tau) for tau in TAUS)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--held-out", action="store_true")
    cells = HELD_OUT if parser.parse_args().held_out else DEVELOPED
    columns = ["series × runs", "τ", "median found", "interval holds it", "luck told as more than luck"]
    print_table("What history says of luck of wheels", columns, list(_rows(cells)))


if __name__ == "__main__":
    main()
