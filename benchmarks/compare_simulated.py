"""Measure errors and duration of `compare` on simulated machines with order effects, modes, autocorrelation or drift.

    python benchmarks/compare_simulated.py [TRIALS] [--held-out] [--only WORD ...]

Each trial is one comparison: everything that `compare` does with the pairs of its cases and with base against itself,
until all cases are settled or the time is up: a minute per case, of which a pair takes a second. Only the pairs are
simulated. The worlds of `--held-out` were fixed before anything was tried on the others, and run once.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import math
import sys
import zlib
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import TYPE_CHECKING

import numpy as np
from report import print_table

from torchperf_ci.bench.case import Case, Settings
from torchperf_ci.bench.pairs import Pair
from torchperf_ci.compare import comparison_loop
from torchperf_ci.compare.case_verdicts import ComparisonPolicy, judge_cases
from torchperf_ci.compare.compared_case import ComparedCase, Comparison, judge_controls
from torchperf_ci.compare.comparison_loop import BudgetAllocation, PairRunner, measure_rounds
from torchperf_ci.config import Config
from torchperf_ci.console import Progress
from torchperf_ci.metrics import LATENCY
from torchperf_ci.series.points import Series
from torchperf_ci.stats.build_variance import most_luck
from torchperf_ci.stats.sequential_test import ALPHA

if TYPE_CHECKING:
    from collections.abc import Sequence

MIN_EFFECT = 0.03
LARGER = (0.06, 0.10)
"""Changes that are tried as well where builds differ by luck."""
SECONDS_A_CASE = 60.0
SEED = 20261123
WORDS = ("regressed", "improved", "unchanged", "noisy")


@dataclass(frozen=True)
class World:
    """Where pairs come from: noise of ``sd``, and what else a machine does, on the log scale.

    Each process is slow by ``mode`` with the probability ``share``; each pair is by ``apart`` up or down; ``heavy``
    errors are Student's with 3 degrees of freedom; ``builds`` is the standard deviation of each build's luck, which all
    pairs share. The rest favours whichever of the two processes begins: by
    ``always``; by what is left with ``rho`` of the error of the pair before; by ``lasting`` for or against, for a
    number of pairs between the two of ``lasts``; and by ``drift`` after 60 pairs a case, in proportion. ``of_head``: it
    favours head instead, whichever begins.
    """

    name: str
    sd: float
    heavy: bool = False
    mode: float = 0.0
    share: float = 0.5
    apart: float = 0.0
    builds: float = 0.0
    always: float = 0.0
    rho: float = 0.0
    lasting: float = 0.0
    lasts: tuple[int, int] = (5, 15)
    drift: float = 0.0
    cases: int = 1
    of_head: bool = False


class Session:
    """A machine on which one comparison is done: its clock, and what its pairs read, in the order taken."""

    def __init__(self, world: World, change: float, seed: Sequence[int]) -> None:
        self.world, self.change, self.pairs = world, change, 0
        self._random = np.random.default_rng(seed)
        self._remembered, self._side = self._random.normal(), self._random.choice([-1, 1])
        self._left = int(self._random.integers(1, world.lasts[1] + 1))
        self._luck = float(self._random.normal(0, world.builds * math.sqrt(2))) if world.builds else 0.0

    def monotonic(self) -> float:
        """Seconds since it began: a pair takes one."""
        return float(self.pairs)

    def measure_pair(
        self,
        case: Case,
        base: Settings,
        head: Settings,
        _scratch: Path,
        _started: object = None,
        *,
        head_first: bool = False,
    ) -> Pair:
        """In the place of :func:`torchperf_ci.bench.pairs.measure_pair`; of the cases, the first one has the change."""
        is_control = base == head
        change = self.change if case.workload == "case/0" and not is_control else 0.0
        change += 0.0 if is_control else self._luck
        favour = self._favour() * (0 if self.world.of_head and is_control else 1)
        ratio = change + self._noise() + (-favour if head_first and not self.world.of_head else favour)
        self.pairs += 1
        return Pair((ratio,), 1.0, math.exp(ratio))

    def _noise(self) -> float:
        world, random = self.world, self._random
        slow, quick = (random.random() < world.share for _ in range(2))
        fresh = 0.0 if world.rho else random.standard_t(3) / math.sqrt(3) if world.heavy else random.normal()
        jump = world.mode * (float(slow) - float(quick)) + world.apart * random.choice([-1, 1])
        return float(world.sd * fresh + jump)

    def _favour(self) -> float:
        """What the process that begins is quicker by."""
        world = self.world
        new = math.sqrt(1 - world.rho**2) * self._random.normal()
        self._remembered = world.rho * self._remembered + new
        self._left -= 1
        if self._left < 0:
            self._side, self._left = -self._side, int(self._random.integers(*world.lasts, endpoint=True))
        remembered = world.sd * self._remembered if world.rho else 0.0
        drifted = world.drift * self.pairs / (SECONDS_A_CASE * world.cases)
        return float(world.always + remembered + world.lasting * self._side + drifted)


DEVELOPED = (
    World("a GPU: 0.1%", 0.001),
    World("normal, 1.2%", 0.012),
    World("normal, 3%", 0.03),
    World("Student's t, 3 df, 3%", 0.03, heavy=True),
    World("processes of two modes, 3% apart, 0.1%", 0.001, mode=0.03),
    World("processes of two modes, 6% apart, 0.3%", 0.003, mode=0.06),
    World("pairs at ±3%, 0.3%", 0.003, apart=0.03),
    World("the first is favoured by 2%, 0.2%", 0.002, always=0.02),
    World("the first is favoured by 2%, 1%", 0.01, always=0.02),
    World("a mode of ±1.5%, 1%", 0.01, lasting=0.015),
    World("a mode of ±2.5%, 1%", 0.01, lasting=0.025),
    World("a mode of ±2.5%, 0.3%", 0.003, lasting=0.025),
    World("1.2%, rho = 0.8", 0.012, rho=0.8),
    World("3%, rho = 0.6", 0.03, rho=0.6),
    World("3%, rho = 0.8", 0.03, rho=0.8),
    World("a drift to 2%, 1%", 0.01, drift=0.02),
    World("a drift to 5%, 1%", 0.01, drift=0.05),
    World("a drift to 10%, 1%", 0.01, drift=0.10),
    World("a mode of ±2.5%, 1%, 4 cases", 0.01, lasting=0.025, cases=4),
    World("a drift to 5%, 1%, 4 cases", 0.01, drift=0.05, cases=4),
    World("head has a mode of ±1.5%, 1%", 0.01, lasting=0.015, of_head=True),
    World("head: 3%, rho = 0.6", 0.03, rho=0.6, of_head=True),
    World("builds ±0.5%, 0.5%", 0.005, builds=0.005),
    World("builds ±1%, 1%", 0.01, builds=0.01),
    World("builds ±1.5%, 1%", 0.01, builds=0.015),
)
HELD_OUT = (
    World("a GPU: 0.2%", 0.002),
    World("normal, 2%", 0.02),
    World("Student's t, 3 df, 2%", 0.02, heavy=True),
    World("processes of two modes, 4% apart, one in three slow, 0.2%", 0.002, mode=0.04, share=1 / 3),
    World("pairs at ±4%, 0.2%", 0.002, apart=0.04),
    World("the first is favoured by 1.2%, 0.5%", 0.005, always=0.012),
    World("a mode of ±2% for 5 to 8 pairs, 0.8%", 0.008, lasting=0.02, lasts=(5, 8)),
    World("a mode of ±2% for 10 to 15 pairs, 1.5%", 0.015, lasting=0.02, lasts=(10, 15)),
    World("2%, rho = 0.5", 0.02, rho=0.5),
    World("2%, rho = 0.7", 0.02, rho=0.7),
    World("a drift to 1%, 0.8%", 0.008, drift=0.01),
    World("a drift to 3.5%, 1.5%", 0.015, drift=0.035),
    World("a drift to 8%, 1.5%", 0.015, drift=0.08),
    World("a mode of ±1.8% and a drift to 4%, 1%, 3 cases", 0.01, lasting=0.018, drift=0.04, cases=3),
    World("head has a mode of ±2%, 1.5%", 0.015, lasting=0.02, of_head=True),
)


def compared(session: Session) -> list[str]:
    """The verdicts of the cases."""
    cases = [Case(f"case/{number}", "inference", "fp32", "eager", 1) for number in range(session.world.cases)]
    comparison = Comparison([ComparedCase(case, place=place) for place, case in enumerate(cases)])
    comparison.luck = most_luck(ALPHA / len(cases)) if session.world.builds else 0.0
    runner = PairRunner(Settings("base", "cpu"), Settings("head", "cpu"), Path())
    budget = SECONDS_A_CASE * len(cases)
    comparison_loop.time = session  # type: ignore[assignment]  # the clock of the simulation
    comparison_loop.measure_pair = session.measure_pair  # type: ignore[assignment]  # and its pairs
    with contextlib.redirect_stderr(io.StringIO()):
        allocation = BudgetAllocation(comparison, MIN_EFFECT)
        measure_rounds(comparison, runner, budget, allocation, Progress(budget, timed=True))
    controls = judge_controls(comparison, MIN_EFFECT)
    verdicts = judge_cases(comparison, ComparisonPolicy(Config()), unnamed, controls)
    return [verdict.verdict for verdict in verdicts if verdict.series.metric == LATENCY]


def unnamed(case: Case, metric: str) -> Series:
    """No more of a name is needed here."""
    return Series("", "", case.workload, "", "", "", "", "", metric)


def told(world: World, change: float, trials: int) -> list[str]:
    """A row of the table. Where no case changes, it is what was said of any of them, the worst first."""
    words: Counter[str] = Counter()
    pairs = []
    for trial in range(trials):
        session = Session(world, math.log1p(change), [SEED, trial, zlib.crc32(world.name.encode())])
        found = compared(session)
        words[found[0] if change else min(found, key=WORDS.index)] += 1
        pairs.append(session.pairs / world.cases)
    shares = [f"{words[word] / trials:.1%}" for word in WORDS]
    row = [world.name, f"{change:.0%}", *shares, f"{mean(pairs):.1f}"]
    print(*row, sep=" | ", file=sys.stderr, flush=True)
    return row


def main() -> None:
    """Print a row a world and change."""
    parser = argparse.ArgumentParser(description="Comparisons on simulated machines.")
    parser.add_argument("trials", type=int, nargs="?", default=300)
    parser.add_argument(
        "--held-out", action="store_true", help="the worlds that nothing was developed against"
    )
    parser.add_argument("--only", nargs="+", default=[""], metavar="WORD", help="worlds whose names hold one")
    given = parser.parse_args()
    worlds = [
        world
        for world in (HELD_OUT if given.held_out else DEVELOPED)
        if any(word in world.name for word in given.only)
    ]
    rows = [
        told(world, change, given.trials)
        for world in worlds
        for change in (0.0, MIN_EFFECT, *(LARGER if world.builds else ()))
    ]
    header = ["world", "change", *WORDS, "pairs a case"]
    print_table(f"{given.trials} comparisons a row", header, rows)


if __name__ == "__main__":
    main()
