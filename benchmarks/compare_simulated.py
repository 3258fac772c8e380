"""How often does `compare` call a case slower that is not, on machines with modes and memory, and in how many pairs?

    python benchmarks/compare_simulated.py [TRIALS] [--held-out]

One comparison a trial: pair after pair of one case, with base against itself between them where `compare` takes that,
until it is judged or has had 40 pairs. *Before* is the sequential test of its pairs alone. The worlds that `--held-out`
asks for were fixed before anything was tried on the others, and run once.
"""

from __future__ import annotations

import argparse
import math
from collections import Counter
from dataclasses import dataclass
from statistics import mean, median
from typing import TYPE_CHECKING

import numpy as np
from report import print_table

from torchperf_ci.bench.case import Case
from torchperf_ci.bench.pairs import Pair
from torchperf_ci.compare.case_verdicts import decided
from torchperf_ci.compare.compared_case import ComparedCase
from torchperf_ci.compare.comparison_loop import BudgetAllocation
from torchperf_ci.stats.sequential_test import decide

if TYPE_CHECKING:
    from collections.abc import Callable

MIN_EFFECT = 0.03
MOST = 40
SEED = 20261122
WORDS = ("increase", "decrease", "none", "open")


@dataclass(frozen=True)
class World:
    """Where pairs come from: noise of ``sd``, and what else a machine does, on the log scale.

    ``rho`` is how much a pair's error is like the one before; ``heavy`` errors are Student's with 3 degrees of freedom.
    Each process is slow by ``mode`` with the probability ``share``; each pair is by ``apart`` up or down; the machine
    favours a side by ``lasting`` for 15 pairs at a time.
    """

    name: str
    sd: float
    rho: float = 0.0
    heavy: bool = False
    mode: float = 0.0
    share: float = 0.5
    apart: float = 0.0
    lasting: float = 0.0

    def pairs(self, random: np.random.Generator) -> Callable[[], float]:
        """The errors of one session, one after the other."""
        error, side, place = random.normal(), random.choice([-1, 1]), int(random.integers(15))

        def pair() -> float:
            nonlocal error, side, place
            fresh = random.standard_t(3) / math.sqrt(3) if self.heavy else random.normal()
            error = self.rho * error + math.sqrt(1 - self.rho**2) * fresh
            place += 1
            if place % 15 == 0:
                side = random.choice([-1, 1])
            slow, quick = (random.random() < self.share for _ in range(2))
            jump = self.mode * (float(slow) - float(quick)) + self.apart * random.choice([-1, 1])
            return float(self.sd * error + jump + self.lasting * side)

        return pair


DEVELOPED = (
    World("a GPU: 0.1%", 0.001),
    World("normal, 1.2%", 0.012),
    World("normal, 3%", 0.03),
    World("Student's t, 3 df, 3%", 0.03, heavy=True),
    World("1.2%, rho = 0.8", 0.012, rho=0.8),
    World("3%, rho = 0.6", 0.03, rho=0.6),
    World("3%, rho = 0.8", 0.03, rho=0.8),
    World("processes of two modes, 3% apart, 0.1%", 0.001, mode=0.03),
    World("processes of two modes, 6% apart, 0.3%", 0.003, mode=0.06),
    World("pairs at ±3%, 0.3%", 0.003, apart=0.03),
    World("a mode of ±1.5% for 15 pairs, 1%", 0.01, lasting=0.015),
    World("a mode of ±2.5% for 15 pairs, 1%", 0.01, lasting=0.025),
)
HELD_OUT = (
    World("a GPU: 0.2%", 0.002),
    World("normal, 2%", 0.02),
    World("Student's t, 3 df, 2%", 0.02, heavy=True),
    World("2%, rho = 0.5", 0.02, rho=0.5),
    World("2%, rho = 0.7", 0.02, rho=0.7),
    World("processes of two modes, 4% apart, one in three slow, 0.2%", 0.002, mode=0.04, share=1 / 3),
    World("pairs at ±4%, 0.2%", 0.002, apart=0.04),
    World("a mode of ±2% for 15 pairs, 0.8%", 0.008, lasting=0.02),
)


def now(pair: Callable[[], float], change: float, cases: int) -> tuple[str, int]:
    """What `compare` says, and all pairs that it took, those of base against itself among them."""
    trial = ComparedCase(Case("simulated", "inference", "fp32", "eager", 1))
    others = [ComparedCase(trial.case) for _ in range(cases - 1)]
    allocation = BudgetAllocation([trial, *others], MIN_EFFECT)
    while len(trial.pairs) < MOST:
        trial.pairs.append(Pair((change + pair(),), 1.0, 1.0, 1, 1))
        if allocation.wants_control(trial):
            trial.controls.append((len(trial.pairs), pair()))
        word = decided(trial, allocation.cases, MIN_EFFECT).word
        if word != "open":
            return word, len(trial.pairs) + len(trial.controls)
    word = decided(trial, allocation.cases, MIN_EFFECT, last=True).word
    return word, len(trial.pairs) + len(trial.controls)


def before(pair: Callable[[], float], change: float, cases: int) -> tuple[str, int]:
    """The test of the pairs alone."""
    taken: list[float] = []
    while len(taken) < MOST:
        taken.append(change + pair())
        word = decide(taken, MIN_EFFECT, cases=cases).word
        if word != "open":
            break
    return word, len(taken)


def main() -> None:
    """Print a row a world, change, number of cases and method."""
    parser = argparse.ArgumentParser(description="Comparisons on simulated machines.")
    parser.add_argument("trials", type=int, nargs="?", default=300)
    parser.add_argument("--held-out", action="store_true")
    given = parser.parse_args()
    rows = []
    for number, world in enumerate(HELD_OUT if given.held_out else DEVELOPED):
        for change, cases, method in [
            (change, cases, method)
            for change in (0.0, math.log1p(MIN_EFFECT))
            for cases in (1, 12)
            for method in (before, now)
        ]:
            seeds = ([SEED, given.held_out, number, trial] for trial in range(given.trials))
            found = [method(world.pairs(np.random.default_rng(seed)), change, cases) for seed in seeds]
            words, pairs = Counter(word for word, _ in found), [taken for _, taken in found]
            shares = [f"{words[word] / given.trials:.1%}" for word in WORDS]
            known = [world.name, f"{math.expm1(change):.0%}", str(cases), method.__name__]
            rows.append([*known, *shares, f"{mean(pairs):.1f}", f"{median(pairs):.0f}"])
            print(*rows[-1], sep=" | ", flush=True)
    header = [
        "world",
        "change",
        "cases",
        "method",
        "slower",
        "faster",
        "unchanged",
        "open",
        "pairs",
        "median",
    ]
    print_table(f"{given.trials} comparisons a row", header, rows)


if __name__ == "__main__":
    main()
