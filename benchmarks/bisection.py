"""Compare `torchperf bisect` with its peers in simulated ranges: how often it is right or wrong, and what it costs.

    python benchmarks/bisection.py [TRIALS] [--only METHOD ...] [--cells N:CV:EFFECT ...]

In a simulated range of 70 or 500 commits a random commit makes a benchmark slower by 3, 7 or 15%; runs have a CV of 1,
3 or 5%; a tenth of the commits cannot be built. `bisection_world.py` defines runs and pairs, `bisection_peers.py` the
peers, and `bisection_bound.py` the theoretical bound. All methods search the same ranges.

A result is right if it is the culprit and nothing else, or a set of at most 5 commits with the culprit in it, of which
all but the last cannot be built. Any other name is wrong. In the second table nothing is slower, so every name is
wrong; the ranges of the third have several changes, and a result is right if it names all commits whose slowdown lasts
to the end.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections import Counter
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING

import numpy as np
from bisection_bound import fewest_runs
from bisection_ours import BUILD, bisected
from bisection_peers import peers
from bisection_world import STORIES, Noise, World, one_culprit
from report import print_table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from bisection_world import Outcome, Step, Story

    Method = Callable[[World], Sequence[Step]]

SEED = 20261121
SIZES, CVS, EFFECTS = (70, 500), (0.01, 0.03, 0.05), (0.03, 0.07, 0.15)
FALSE_ALERT = 0.07
"""What the alert told of where nothing is slower."""
OURS = "torchperf bisect"
SHARES: tuple[Outcome, ...] = ("right", "wrong", "unresolved")
BILL = ["runs", "pairs", "builds", f"runs + {BUILD}·builds"]


@dataclass(frozen=True)
class Cell:
    """One world: ``n`` commits, the CV of a run, and the relative effect of the one culprit; 0 is none."""

    n: int
    cv: float
    effect: float

    def __str__(self) -> str:
        return f"{self.n}:{self.cv:.0%}:{self.effect:.0%}"

    def world(self, trial: int, story: Story | None = None) -> World:
        """The same for each method."""
        random = np.random.default_rng(
            [SEED, trial, self.n, round(1000 * self.cv), round(1000 * self.effect)]
        )
        commits = story(self.n, random) if story else one_culprit(self.n, self.effect, random)
        return World(commits, Noise(self.cv), random)


@dataclass(frozen=True)
class Score:
    """Shares of the outcomes, and the mean bill."""

    outcomes: Counter[Outcome]
    runs: float
    pairs: float
    builds: float

    def share(self, outcome: Outcome) -> float:
        return self.outcomes[outcome] / self.outcomes.total()


def play(method: Method, worlds: Iterable[World]) -> Score:
    """What a method makes of some worlds."""
    outcomes: Counter[Outcome] = Counter()
    bills = []
    for world in worlds:
        outcomes[world.outcome(method(world))] += 1
        bills.append((world.runs, world.pairs, world.builds))
    return Score(outcomes, *np.mean(bills, axis=0).tolist())


def methods(alert: float) -> dict[str, Method]:
    """All methods, by name."""
    return {OURS: ours} | peers(alert)


def ours(world: World) -> Sequence[Step]:
    """What `torchperf bisect` names."""
    return bisected(world).named


def _bill(score: Score) -> list[str]:
    total = score.runs + BUILD * score.builds
    return [f"{score.runs:.0f}", f"{score.pairs:.0f}", f"{score.builds:.1f}", f"{total:.0f}"]


def _shares(score: Score) -> list[str]:
    return [f"{score.share(outcome):.1%}" for outcome in SHARES]


def with_one_culprit(cells: Sequence[Cell], only: Sequence[str], trials: int) -> None:
    """One row a cell and method."""
    rows = []
    for cell in cells:
        d = math.log1p(cell.effect) / cell.cv
        for name in only:
            method = methods(cell.effect)[name]
            score = play(method, (cell.world(trial) for trial in range(trials)))
            known = [str(cell.n), f"{cell.cv:.0%}", f"{cell.effect:.0%}", f"{d:.1f}"]
            bound = f"{fewest_runs(cell.n, d):.0f}"
            rows.append(_said([*known, name, *_shares(score), *_bill(score), bound]))
    header = ["n", "CV", "effect", "d", "method", *SHARES, *BILL, "bound on runs"]
    print_table(f"One culprit, {trials} trials a row", header, rows)


def without_culprit(only: Sequence[str], trials: int) -> None:
    """One row a method; each in turn meets every size and CV."""
    cells = [Cell(n, cv, 0.0) for n, cv in product(SIZES, CVS)]
    rows = []
    for name in only:
        worlds = (cells[trial % len(cells)].world(trial) for trial in range(trials))
        score = play(methods(FALSE_ALERT)[name], worlds)
        rows.append(_said([name, f"{score.outcomes['wrong']} of {trials}", *_bill(score)]))
    print_table("No culprit", ["method", "blamed somebody", *BILL], rows)


def with_stories(trials: int) -> None:
    """One row a story and size; ours only, as most peers look for one culprit."""
    rows = []
    for (name, story), n in product(STORIES.items(), SIZES):
        cell = Cell(n, 0.02, 0.07)
        score = play(ours, (cell.world(trial, story) for trial in range(trials)))
        rows.append(_said([name, str(n), *_shares(score), *_bill(score)]))
    print_table(f"{OURS}, CV 2%, {trials} trials a row", ["range", "n", *SHARES, *BILL], rows)


def _said(row: list[str]) -> list[str]:
    """The row, which is shown as soon as it is known: all of them take a while."""
    print(*row, sep=" | ", file=sys.stderr, flush=True)
    return row


def _cell(text: str) -> Cell:
    n, cv, effect = text.replace("%", "").split(":")
    return Cell(int(n), float(cv) / 100, float(effect) / 100)


def main() -> None:
    """Print the tables."""
    names = list(methods(0.0))
    parser = argparse.ArgumentParser(description="How well commits are named, beside the peers' rules.")
    parser.add_argument("trials", type=int, nargs="?", default=300)
    parser.add_argument("--only", nargs="+", choices=names, default=names, metavar="METHOD")
    parser.add_argument(
        "--cells",
        type=_cell,
        nargs="+",
        default=[Cell(*cell) for cell in product(SIZES, CVS, EFFECTS)],
        metavar="N:CV:EFFECT",
        help="percentages, as in 70:3:7",
    )
    given = parser.parse_args()
    with_one_culprit(given.cells, given.only, given.trials)
    without_culprit(given.only, 2 * given.trials)
    if OURS in given.only:
        with_stories(given.trials)


if __name__ == "__main__":
    main()
