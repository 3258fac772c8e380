"""Measure how often `torchperf bisect` names the right commit of a real repository on this machine.

    python benchmarks/bisect_for_real.py [TRIALS] [--first TRIAL]

Each trial creates the repository of `demo/` with 70 commits: a random one makes a benchmark slower by 5 to 50%, in a
random way, and each of the others but the last is broken with a probability of 10%. Then it runs the command as users
do. The trial's number seeds all draws, so a long series of trials can be run in parts.

A result is right if it is one culprit: the planted commit, possibly with adjacent broken ones. It is wrong if it names
commits without the planted one.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

import numpy as np
from report import print_table

from torchperf_ci.culprits.culprit import read_culprits

sys.path.insert(0, str(Path(__file__).parents[1] / "demo"))
import planted_changes
from slowed_repository import make_repository

if TYPE_CHECKING:
    from collections.abc import Sequence

    from slowed_repository import Repository

    from torchperf_ci.culprits.culprit import Bisection

SEED = 5
COMMITS = 70
UNBUILDABLE = 0.10
KINDS = {
    "a wait for the device after each block": planted_changes.sync(),
    "a wait after every second block": planted_changes.sync(every=2),
    "a lost fusion": planted_changes.lost_fusion(),
    "two more validations": planted_changes.validation(times=2),
    "four more validations": planted_changes.validation(times=4),
    "an extra copy": planted_changes.copy(),
    "quadratic time": planted_changes.quadratic(),
}
MAX_SECONDS = 1800
GRACE_SECONDS = 300
HEADER = (
    "trial",
    "planted",
    "at",
    "outcome",
    "commits named",
    "told effect (95%)",
    "pairs",
    "builds",
    "seconds",
)


@dataclass(frozen=True)
class Trial:
    """What is planted: one of :data:`KINDS` at a position from 1 to 70, and which positions are broken."""

    number: int
    kind: str
    position: int
    unbuildable: frozenset[int]

    def right(self, repository: Repository) -> tuple[str, ...]:
        """The commits that cannot be told from the culprit: it, and the broken ones next to it."""
        first = last = self.position
        while first - 1 in self.unbuildable:
            first -= 1
        while last in self.unbuildable:
            last += 1
        return repository.shas[first : last + 1]


@dataclass(frozen=True)
class Result:
    """How a trial ended; ``seconds`` are of the whole command."""

    trial: Trial
    outcome: str
    location: Bisection
    seconds: float


def trial(number: int) -> Trial:
    """The one with a number."""
    random = np.random.default_rng([SEED, number])
    kind, position = random.choice(list(KINDS)), int(random.integers(1, COMMITS + 1))
    broken = 1 + np.flatnonzero(random.random(COMMITS - 1) < UNBUILDABLE)
    return Trial(number, str(kind), position, frozenset(broken.tolist()))


def play(tried: Trial) -> Result:
    """Make the repository, bisect it, and hold what is named against what was planted."""
    with tempfile.TemporaryDirectory() as folder:
        change = {tried.position: KINDS[tried.kind]}
        repository = make_repository(Path(folder) / "smallnet", change, COMMITS, tried.unbuildable)
        out, start = Path(folder) / "culprits.json", time.monotonic()
        bisect(repository, out)
        location = read_culprits(out)
        named = [culprit.set for culprit in location.culprits]
        return Result(tried, outcome(named, tried, repository), location, time.monotonic() - start)


def bisect(repository: Repository, out: Path) -> None:
    """Run the command to its end; what it does can be followed."""
    options = {
        "--repo": repository.path,
        "--good": repository.sha(0),
        "--bad": repository.sha(COMMITS),
        "--suite": repository.suite,
        "--workload": "smallnet/classifier",
        "--deadline": MAX_SECONDS,
        "--on-failure": "warn",
        "--out": out,
    }
    command = [sys.executable, "-m", "torchperf_ci", "bisect"]
    command += [str(word) for option in options.items() for word in option]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=MAX_SECONDS + GRACE_SECONDS)


def outcome(named: Sequence[tuple[str, ...]], tried: Trial, repository: Repository) -> str:
    """Right, wrong or unresolved, as the top of this file has it."""
    if not all(repository.sha(tried.position) in commits for commits in named):
        return "wrong"
    return "right" if named == [tried.right(repository)] else "unresolved"


def row(result: Result) -> list[str]:
    """The result's cells."""
    tried, location = result.trial, result.location
    sets, effects = [one.set for one in location.culprits], [one.effect for one in location.culprits]
    named = ", ".join(str(len(commits)) for commits in sets) or location.status
    told = ", ".join(f"{one.ratio - 1:+.1%} ({one.low - 1:+.1%}…{one.high - 1:+.1%})" for one in effects)
    cost = [str(location.runs), str(location.builds), f"{result.seconds:.0f}"]
    return [str(tried.number), tried.kind, str(tried.position), result.outcome, named, told, *cost]


def total(results: Sequence[Result]) -> list[str]:
    """The last row: all outcomes, and the means of what they cost."""
    counted = ", ".join(f"{count} {word}" for word, count in Counter(one.outcome for one in results).items())
    pairs, builds = ([one.location.runs for one in results], [one.location.builds for one in results])
    seconds = [one.seconds for one in results]
    means = [f"{fmean(pairs):.1f}", f"{fmean(builds):.1f}", f"{fmean(seconds):.0f}"]
    return ["all", "", "", counted, "", "", *means]


def main() -> None:
    """Show each result as it comes, and the table at the end."""
    parser = argparse.ArgumentParser(description="Real bisections of a real repository.")
    parser.add_argument("trials", type=int, nargs="?", default=20)
    parser.add_argument("--first", type=int, default=1, metavar="TRIAL")
    given = parser.parse_args()
    results = []
    for number in range(given.first, given.first + given.trials):
        results.append(play(trial(number)))
        print(*row(results[-1]), sep=" | ", file=sys.stderr, flush=True)
    rows = [*map(row, results), total(results)]
    print_table(f"{len(results)} bisections of a real repository of {COMMITS} commits", HEADER, rows)


if __name__ == "__main__":
    main()
