"""Measure how often `torchperf bisect` names a wrong commit on machines and builds with the flaws of real ones.

    python benchmarks/bisection_cruel.py [TRIALS] [--held-out] [--only WORD ...]

Each row is a world that differs from the clean one of `bisection.py` in one respect (see `bisection_world.py`). The
rows of `--held-out` have parameters of their own, which were fixed before anything was developed against the others.

Right and wrong are defined as in `bisection.py`. *Claims* are the steps that had a posterior of 95% or more of being a
culprit before the proof began: their number, and the share that was right. *Names* are the claims that were proven.
*Sets* are the 95% credible sets that remained where no culprit was named, and how many of them contain one.
"""

from __future__ import annotations

import argparse
import math
import sys
import zlib
from collections import Counter
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from bisection_bound import fewest_runs
from bisection_ours import BUILD, bisected
from bisection_world import Noise, World, creep, drift, one_culprit, returned, reverted
from report import print_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bisection_ours import Played
    from bisection_world import Outcome, Story

SEED = 20261122
LUCK = 0.003
"""The spread of builds that is expected where something is compiled."""
SHARES: tuple[Outcome, ...] = ("right", "wrong", "unresolved", "aborted")


@dataclass(frozen=True)
class Cell:
    """One world. ``compiled`` builds can be drawn anew, and ``kept`` ones cannot, but have luck all the same.

    ``series`` are equal; ``others`` are measured beside them and do not change.
    """

    name: str
    noise: Noise
    effect: float = 0.03
    n: int = 70
    story: Story | None = None
    compiled: bool = False
    kept: bool = False
    series: int = 1
    others: int = 0

    def world(self, trial: int) -> World:
        """The same for each version of what is judged."""
        random = np.random.default_rng([SEED, trial, zlib.crc32(self.name.encode())])
        story = self.story or (lambda n, random: one_culprit(n, self.effect, random))
        return World(story(self.n, random), self.noise, random)

    @property
    def bound(self) -> str:
        """Runs that it takes at least, where one commit does it."""
        return f"{fewest_runs(self.n, math.log1p(self.effect) / self.noise.cv):.0f}" if self.effect else ""

    def play(self, trial: int) -> tuple[World, Played]:
        """One bisection."""
        world = self.world(trial)
        luck = LUCK if self.compiled or self.kept else 0.0
        return world, bisected(
            world, luck=luck, rebuilds=self.compiled, series=self.series, others=self.others
        )


def _lucky(sd: float, effect: float, n: int = 70, cv: float = 0.01) -> Cell:
    return Cell(_name(f"builds ±{sd:.1%}", effect, n), Noise(cv, builds=sd), effect, n, compiled=True)


def _clean(effect: float, cv: float) -> Cell:
    return Cell(_name(f"clean, CV {cv:.0%}", effect), Noise(cv), effect)


def _name(text: str, effect: float, n: int = 70) -> str:
    return f"{text}, {f'{effect:.0%}' if effect else 'nothing'}" + (f", n = {n}" if n != 70 else "")


def _modes(mode: float, effect: float) -> Cell:
    return Cell(_name(f"a mode of ±{mode:.1%}", effect), Noise(0.01, mode=mode), effect)


def _remembering(rho: float, effect: float, cv: float = 0.03) -> Cell:
    return Cell(_name(f"pairs remember, rho = {rho}", effect), Noise(cv, rho=rho), effect)


def _drifting(total: float, pairs: int, effect: float, cv: float) -> Cell:
    name = _name(f"a machine that drifts {total:.0%} in {pairs} pairs", effect)
    return Cell(name, Noise(cv, drift=total / pairs), effect)


def _in_either_order(cell: Cell) -> Cell:
    noise = replace(cell.noise, in_either_order=True)
    return replace(cell, name=f"{cell.name}, in either order", noise=noise)


DEVELOPED = [
    *(
        _clean(effect, cv)
        for effect, cv in ((0.0, 0.03), (0.03, 0.01), (0.03, 0.03), (0.07, 0.03), (0.15, 0.03))
    ),
    Cell("compiled, and builds are equal, CV 3%, 7%", Noise(0.03), 0.07, compiled=True),
    *(_lucky(sd, 0.0) for sd in (0.005, 0.010, 0.015)),
    _lucky(0.005, 0.03),
    *(_lucky(0.010, effect) for effect in (0.03, 0.07, 0.15)),
    _lucky(0.015, 0.07),
    _lucky(0.010, 0.03, n=500),
    *(
        Cell(_name("builds ±1.0%, kept", effect), Noise(0.01, builds=0.010), effect, kept=True)
        for effect in (0.0, 0.03, 0.15)
    ),
    *(
        Cell(_name("builds ±1.5%, kept", effect), Noise(0.01, builds=0.015), effect, kept=True)
        for effect in (0.0, 0.07, 0.10)
    ),
    *(
        Cell(
            _name("builds ±1.5%, 20 series", effect),
            Noise(0.01, builds=0.015),
            effect,
            compiled=True,
            others=19,
        )
        for effect in (0.0, 0.07)
    ),
    Cell(
        "bad's first build is 20% slower by luck", Noise(0.01, builds=0.005, unlucky=0.18), 0.0, compiled=True
    ),
    *(_remembering(rho, effect) for effect in (0.0, 0.03) for rho in (0.6, 0.8)),
    _modes(0.015, 0.0),
    _modes(0.015, 0.03),
    _modes(0.025, 0.0),
    *(
        Cell(f"bad has a mode of ±{mode:.1%}, nothing", Noise(0.01, mode=mode, of_bad=True), 0.0)
        for mode in (0.015, 0.025)
    ),
    *(_drifting(0.03, 100, effect, 0.01) for effect in (0.0, 0.05)),
    *map(
        _in_either_order,
        (
            *(_remembering(0.8, effect) for effect in (0.0, 0.03)),
            _modes(0.015, 0.03),
            _modes(0.025, 0.0),
            _drifting(0.03, 100, 0.05, 0.01),
        ),
    ),
    Cell("100 commits of .03% each", Noise(0.01), 0.0, 100, drift),
    Cell("100 commits of .03% each, 5%", Noise(0.01), 0.05, 100, partial(drift, effect=0.05)),
    Cell("a commit of 7%, its revert, its return", Noise(0.02), 0.07, story=returned),
    Cell("7%, and 10% that are reverted", Noise(0.02), 0.07, story=reverted),
    *(
        Cell(
            f"builds ±{sd:.1%}, {factor - 1:.0%}, its revert, its return",
            Noise(0.01, builds=sd),
            factor - 1,
            story=partial(returned, factor=factor),
            compiled=True,
        )
        for sd, factor in ((0.010, 1.07), (0.015, 1.04))
    ),
    Cell("creep of 14 × .5%", Noise(0.01), 0.0, story=creep),
    Cell("15% of builds fail by chance, 7%", Noise(0.03, flaky=0.15), 0.07),
    Cell("two equal series, CV 3%, 3%", Noise(0.03), series=2),
    Cell("two equal series, CV 3%, nothing", Noise(0.03), 0.0, series=2),
]
HELD_OUT = [
    *(_clean(effect, cv) for effect, cv in ((0.0, 0.02), (0.04, 0.02), (0.10, 0.02), (0.25, 0.05))),
    *(_lucky(sd, 0.0, 110) for sd in (0.008, 0.013)),
    _lucky(0.007, 0.04, 110),
    *(_lucky(0.012, effect, 110) for effect in (0.04, 0.06, 0.12)),
    _lucky(0.008, 0.05, 110, cv=0.03),
    *(
        Cell(_name("builds ±0.8%, kept", effect, 110), Noise(0.015, builds=0.008), effect, 110, kept=True)
        for effect in (0.0, 0.04)
    ),
    *(_remembering(rho, effect, 0.02) for effect in (0.0, 0.04) for rho in (0.5, 0.7)),
    _modes(0.012, 0.04),
    _modes(0.020, 0.0),
    _modes(0.020, 0.05),
    *(_drifting(0.02, 80, effect, 0.015) for effect in (0.0, 0.04)),
    *map(
        _in_either_order,
        (
            *(_remembering(0.7, effect, 0.02) for effect in (0.0, 0.04)),
            _modes(0.020, 0.0),
            _modes(0.020, 0.05),
            _drifting(0.02, 80, 0.04, 0.015),
        ),
    ),
    Cell("60 commits of .04% each", Noise(0.01), 0.0, 60, partial(drift, total=0.024)),
    Cell("60 commits of .04% each, 4%", Noise(0.01), 0.04, 60, partial(drift, total=0.024, effect=0.04)),
    Cell("a commit of 5%, its revert, its return", Noise(0.015), 0.05, 110, partial(returned, factor=1.05)),
    Cell("creep of 10 × .7%", Noise(0.015), 0.0, 110, partial(creep, count=10, factor=1.007)),
    Cell("20% of builds fail by chance, 5%", Noise(0.02, flaky=0.20), 0.05, 110),
    Cell("two equal series, CV 2%, 4%", Noise(0.02), 0.04, 110, series=2),
]


@dataclass
class Score:
    """What came of all trials of a cell: outcomes, honesty, and the bill."""

    outcomes: Counter[Outcome] = field(default_factory=Counter)
    claims: list[bool] = field(default_factory=list)
    names: list[bool] = field(default_factory=list)
    sets: list[bool] = field(default_factory=list)
    bills: list[tuple[int, int]] = field(default_factory=list)

    def add(self, world: World, played: Played) -> None:
        """One more trial."""
        wanted = world.commits.culprits
        right = {step: bool(wanted & {*range(step[0] + 1, step[1] + 1)}) for step in played.claims}
        self.outcomes["aborted" if played.aborted else world.outcome(played.named)] += 1
        self.claims += right.values()
        self.names += [right[step] for step in played.named if step in right]
        left = wanted - {place for before, after in played.named for place in range(before + 1, after + 1)}
        if left:
            self.sets += [bool(left & suspects) for suspects in played.sets]
        self.bills.append((world.runs, world.builds))

    def told(self, bound: str) -> list[str]:
        """The columns beside the name."""
        runs, builds = np.mean(self.bills, axis=0)
        shares = [f"{self.outcomes[one] / self.outcomes.total():.1%}" for one in SHARES]
        honest = [f"{sum(one)} of {len(one)}" for one in (self.claims, self.names, self.sets)]
        return [*shares, *honest, f"{runs:.0f}", f"{builds:.1f}", f"{runs + BUILD * builds:.0f}", bound]


HEADER = [
    "world",
    *SHARES,
    "claims",
    "names",
    "sets",
    "runs",
    "builds",
    f"runs + {BUILD}·builds",
    "bound on runs",
]


def scored(cell: Cell, trials: int) -> list[str]:
    """A row of the table, which is shown as soon as it is known: all of them take a while."""
    score = Score()
    for trial in range(trials):
        score.add(*cell.play(trial))
    row = [cell.name, *score.told(cell.bound)]
    print(*row, sep=" | ", file=sys.stderr, flush=True)
    return row


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description="How well commits are named in worlds that are like real ones."
    )
    parser.add_argument("trials", type=int, nargs="?", default=300)
    parser.add_argument("--held-out", action="store_true", help="the rows that nothing was developed against")
    parser.add_argument(
        "--only", nargs="+", default=[""], metavar="WORD", help="rows whose names hold one of these"
    )
    given = parser.parse_args()
    cells: Sequence[Cell] = HELD_OUT if given.held_out else DEVELOPED
    rows = [scored(cell, given.trials) for cell in cells if any(word in cell.name for word in given.only)]
    print_table(f"{'Held out' if given.held_out else 'Developed'}, {given.trials} trials a row", HEADER, rows)


if __name__ == "__main__":
    main()
