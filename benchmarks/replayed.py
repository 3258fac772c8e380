"""Replay `torchperf check` run by run over series whose levels come and go, and count true and false proofs.

    python benchmarks/replayed.py [--series 12] [--seed 1] [--held-out] [--alone] [--calm]

``ci_series.py`` generates the series. At each run, all series that reach it are judged together, or each ``--alone``. A
proof is true if a real change in its direction began in one of the newest twelve runs, else false; so the first visit
to a level counts as false, although nothing in the past could show it. Of the real changes, those of 3% or more count.
``--held-out`` uses other parameters than those on which the rules were developed. ``--calm`` makes series with modes or
bursts rare, as they are in real projects.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from ci_series import DEVELOPED, HELD_OUT, simulate
from report import print_table

from torchperf_ci.stats.gate import judge

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ci_series import Kind, Simulated

FIRST = 30
"""Runs before the first that is judged."""
SOON = 12
CALM = 64
"""Series of each kind without modes or bursts, for each one that has them, in a calm world."""
MIN_EFFECT = float(np.log(1.03))


class Found(NamedTuple):
    """That the series in ``row`` looked changed in direction ``sign`` at its run number ``run``."""

    row: int
    run: int
    sign: int
    proven: bool


@dataclass
class Tally:
    """Of one kind of series: ``delays`` are runs until proof, one for each real change that was proven."""

    points: int = 0
    false: int = 0
    one_night: int = 0
    changes: int = 0
    candidates: int = 0
    delays: list[int] = field(default_factory=list)

    def row(self, name: str) -> list[str]:
        """As the table has it."""
        proven, seen = (count / max(1, self.changes) for count in (len(self.delays), self.candidates))
        per_thousand = 1000 * self.false / max(1, self.points)
        delay = f"{median(self.delays):g}" if self.delays else ""
        numbers = [f"{self.points:,}", str(self.false), str(self.one_night), f"{per_thousand:.2f}"]
        return [name, *numbers, str(self.changes), f"{proven:.0%}", f"{seen:.0%}", delay]

    def __add__(self, other: Tally) -> Tally:
        return Tally(
            self.points + other.points,
            self.false + other.false,
            self.one_night + other.one_night,
            self.changes + other.changes,
            self.candidates + other.candidates,
            self.delays + other.delays,
        )


def replay(series: Sequence[Simulated], *, alone: bool) -> Iterator[Found]:
    """What was found at each run, as the past grew."""
    lengths = np.array([one.values.size for one in series])
    values = np.full((len(series), lengths.max()), np.nan)
    sessions = np.zeros(values.shape, dtype=np.int64)
    for row, one in enumerate(series):
        values[row, : one.values.size] = one.values
        sessions[row, : one.sessions.size] = one.sessions
    for run in range(FIRST, lengths.max()):
        rows = np.flatnonzero(lengths > run)
        for family in np.array_split(rows, rows.size) if alone else [rows]:
            least = np.full(family.size, MIN_EFFECT)
            found = judge(values[family, : run + 1], least, sessions=sessions[family, : run + 1])
            for side, sign in ((found.up, 1), (found.down, -1)):
                for place in np.flatnonzero(side.candidate):
                    yield Found(int(family[place]), run, sign, bool(side.proven[place]))


def tallies(series: Sequence[Simulated], found: Sequence[Found]) -> dict[str, Tally]:
    """The score of each kind."""
    scores: dict[str, Tally] = defaultdict(Tally)
    for one in series:
        scores[one.kind].points += one.values.size - FIRST
    seen: dict[tuple[int, int], list[Found]] = defaultdict(list)
    false = set()
    for one in found:
        change = _change(series[one.row], one)
        if change is not None:
            seen[one.row, change].append(one)
        elif one.proven:
            false.add(one)
            scores[series[one.row].kind].false += 1
    for one in false:
        beside = {one._replace(run=one.run + by) for by in (-1, 1)}
        scores[series[one.row].kind].one_night += not beside & false
    for row, one in enumerate(series):
        for begin in (run for run, size in one.changes.items() if abs(size) >= MIN_EFFECT):
            score, about = scores[one.kind], seen[row, begin]
            score.changes += 1
            score.candidates += bool(about)
            score.delays += [hit.run - begin + 1 for hit in about if hit.proven][:1]
    return scores


def _change(one: Simulated, found: Found) -> int | None:
    return next(
        (
            run
            for run, size in one.changes.items()
            if run <= found.run < run + SOON and np.sign(size) == found.sign
        ),
        None,
    )


def world(kinds: Sequence[Kind], each: Sequence[int], seed: int) -> list[Simulated]:
    """``each`` of the kinds so often; the series of one kind are the same whatever the others are."""
    randoms = [np.random.default_rng([seed, number]) for number in range(len(kinds))]
    return [
        simulate(kind, random)
        for kind, random, count in zip(kinds, randoms, each, strict=True)
        for _ in range(count)
    ]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--series", type=int, default=12)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--held-out", action="store_true")
    parser.add_argument("--alone", action="store_true")
    parser.add_argument("--calm", action="store_true")
    given = parser.parse_args()
    kinds = HELD_OUT if given.held_out else DEVELOPED
    each = [CALM if given.calm and kind.modes == 1 and not kind.bursts else given.series for kind in kinds]
    series = world(kinds, each, given.seed)
    scores = tallies(series, list(replay(series, alone=given.alone)))
    numbers = [
        "points",
        "false proofs",
        "for one run",
        "per 1,000",
        "changes ≥ 3%",
        "proven",
        "or candidate",
        "delay",
    ]
    rows = [score.row(kind) for kind, score in scores.items()]
    print_table(
        f"{len(series)} series, {'held out' if given.held_out else 'developed on'}",
        ["series", *numbers],
        [*rows, sum(scores.values(), Tally()).row("all")],
    )


if __name__ == "__main__":
    main()
