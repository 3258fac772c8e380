"""Simulate a nightly: false alarms per month, and how soon true regressions are found, for several rules.

    python benchmarks/nightly.py [SERIES] [MONTHS]

Each series has its own noise (CV 0.5–10%), one run in ten from a heavy tail, a spike in one run of 200, and the offset
of a machine that it shares with a fifth of the others. A run is the median of three processes, which share half of its
variance and all of a spike. After a past of 45 nights, 30 nights are judged, in which nothing changes and every alarm
is false; then the last four are simulated again with steps in one series of ten.

``candidates`` and ``proven`` are those of `torchperf check`, which also accepts one run as proof if all its processes
agree; ``measured again`` are the candidates that the test of `torchperf compare` confirms, with simulated pairs that
spread by 1.2% and are heavy-tailed, too. The other rules are in use elsewhere: comparison with the night before
(TorchBench), and with the median of ten, alarming at two bad nights in a row (the benchmark infrastructure's daily
report).
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from report import print_table

from torchperf_ci.stats.gate import Repetitions, judge
from torchperf_ci.stats.sequential_test import decide

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

MACHINES = 5
PROCESSES = 3
SHARED = 0.5
"""Of the variance between runs: what the processes of one run have in common."""
VARIANCE_OF_MEDIAN = 0.449
"""Of three normal values, in units of theirs."""
OFFSET = 0.01
PAST, NIGHTS = 45, 30
STEPS = (0.03, 0.05, 0.10)
SOON = (1, 2, 4)
QUIET = 0.015
"""CV up to which a 3% step is to be found within two nights."""
MIN_EFFECT = 0.03
PAIR_SPREAD, MAX_PAIRS = 0.012, 30


@dataclass(frozen=True)
class Nightly:
    """Log values, shape (series, nights), medians of processes that lie between ``lowest`` and ``highest``; the CV of
    each series, and the job of each value."""

    values: Floats
    lowest: Floats
    highest: Floats
    cv: Floats
    jobs: NDArray[np.int64]
    machines: NDArray[np.int64]

    def with_step(self, effects: Floats, since: int) -> Nightly:
        """The same, but each series is slower by its effect from the night ``since`` on."""
        moved = np.zeros_like(self.values)
        moved[:, since:] = effects[:, None]
        values, lowest, highest = (part + moved for part in (self.values, self.lowest, self.highest))
        return replace(self, values=values, lowest=lowest, highest=highest)


def simulate(series: int, random: np.random.Generator) -> Nightly:
    """A nightly without any change."""
    shape = series, PAST + NIGHTS
    cv = np.exp(random.uniform(np.log(0.005), np.log(0.10), series))
    shared = np.sqrt(SHARED) * _heavy_tailed(shape, random)
    shared += (random.random(shape) < 0.005) * random.exponential(0.15, shape) / cv[:, None]
    own = np.sqrt((1 - SHARED) / VARIANCE_OF_MEDIAN) * _heavy_tailed((*shape, PROCESSES), random)
    processes = cv[:, None, None] * (shared[..., None] + own)
    machines = random.integers(0, MACHINES, series)
    offsets = OFFSET * random.standard_t(4, (MACHINES, shape[1])) / np.sqrt(2)
    jobs = machines[:, None] * shape[1] + np.arange(shape[1])
    processes += offsets[machines][..., None]
    lowest, values, highest = np.moveaxis(np.sort(processes, axis=2), 2, 0)
    return Nightly(values, lowest, highest, cv, jobs, machines)


def _heavy_tailed(shape: tuple[int, ...], random: np.random.Generator) -> Floats:
    """Noise with a standard deviation of 1."""
    heavy = random.random(shape) < 0.1
    noise = np.where(heavy, 1.3 * random.standard_t(3, shape), random.standard_normal(shape))
    return noise / noise.std()


def rules(nightly: Nightly, night: int) -> dict[str, NDArray[np.bool_]]:
    """What each rule alarms about in the evening of ``night``."""
    taken = slice(night - PAST, night + 1)
    known, jobs = nightly.values[:, taken], nightly.jobs[:, taken]
    newest = Repetitions(nightly.lowest[:, night], nightly.highest[:, night])
    min_effect = np.full(len(known), np.log1p(MIN_EFFECT))
    history = judge(known, min_effect, jobs, nightly.machines)
    found = judge(known, min_effect, jobs, nightly.machines, newest)
    ratios = known - np.median(known[:, -12:-2], axis=1, keepdims=True)
    return {
        "candidates": found.up.candidate,
        "proven by history": history.up.proven,
        "proven by history or by one run": found.up.proven,
        "7% above the night before": known[:, -1] - known[:, -2] > np.log(1.07),
        "10% above the median of ten": ratios[:, -1] > np.log(1.10),
        "15%, two nights in a row": (ratios[:, -2:] > np.log(1.15)).all(axis=1),
    }


def measured_again(
    candidates: NDArray[np.bool_], effects: Floats, random: np.random.Generator
) -> tuple[NDArray[np.bool_], int]:
    """The candidates that pairs confirm, and how many pairs that took."""
    rows, taken = np.flatnonzero(candidates), 0
    confirmed = np.zeros(len(candidates), dtype=bool)
    for row in rows:
        scale = np.where(random.random(MAX_PAIRS) < 0.05, 3.0, 1.0) * PAIR_SPREAD
        pairs = effects[row] + scale * random.standard_normal(MAX_PAIRS)
        for count in range(6, MAX_PAIRS + 1):
            word = decide(pairs[:count], MIN_EFFECT, cases=rows.size).word
            if word != "open":
                break
        taken += count
        confirmed[row] = word == "increase"
    return confirmed, taken


def false_alarms(months: Sequence[Nightly], random: np.random.Generator) -> Mapping[str, float]:
    """Alarms a month where nothing has changed."""
    total: dict[str, float] = {}
    for nightly in months:
        for night in range(PAST, PAST + NIGHTS):
            found = rules(nightly, night)
            nothing = np.zeros(len(nightly.cv))
            found["measured again"], pairs = measured_again(found["candidates"], nothing, random)
            for rule, alarms in found.items():
                total[rule] = total.get(rule, 0) + alarms.sum() / len(months)
            total["pairs"] = total.get("pairs", 0) + pairs / len(months)
    return total


def found_soon(
    months: Sequence[Nightly], step: float, random: np.random.Generator
) -> Mapping[str, Sequence[float]]:
    """The share of quiet series with a step that each rule finds within 1, 2, 4 nights, and of all series after 4."""
    shares: dict[str, list[list[float]]] = {}
    for nightly in months:
        last = PAST + NIGHTS - 1
        stepped = random.random(len(nightly.cv)) < 0.1
        quiet = nightly.cv[stepped] <= QUIET
        seen: dict[str, NDArray[np.bool_]] = {}
        first = last - max(SOON) + 1
        effects = stepped * np.log1p(step)
        slower = nightly.with_step(effects, first)
        for night in range(first, last + 1):
            found = rules(slower, night)
            found["measured again"], _ = measured_again(found["candidates"], effects, random)
            for rule, alarms in found.items():
                seen[rule] = seen.get(rule, alarms) | alarms
                if night - first + 1 in SOON:
                    shares.setdefault(rule, []).append(
                        [seen[rule][stepped][quiet].mean(), seen[rule][stepped].mean()]
                    )
    every = {
        rule: np.array(found).reshape(len(months), len(SOON), 2).mean(axis=0)
        for rule, found in shares.items()
    }
    return {rule: [*found[:, 0], found[-1, 1]] for rule, found in every.items()}


def main() -> None:
    series = int(sys.argv[1]) if len(sys.argv) > 1 else 5000
    random = np.random.default_rng(20261121)
    months = [simulate(series, random) for _ in range(int(sys.argv[2]) if len(sys.argv) > 2 else 3)]
    false = false_alarms(months, random)
    found = {step: found_soon(months, step, random) for step in STEPS}
    header = ["rule", "false per month"]
    header += [f"{step:.0%} in 1 / 2 / 4 nights, and of all in 4" for step in STEPS]
    rows = [
        [rule, f"{false[rule]:,.1f}"]
        + [" / ".join(f"{share:.0%}" for share in found[step][rule]) for step in STEPS]
        for rule in false
        if rule != "pairs"
    ]
    print_table(
        f"{series:,} series, {len(months)} months; shares of those with a CV up to {QUIET:.1%}, but for the last",
        header,
        rows,
    )
    print(f"Measuring again takes {false['pairs'] / NIGHTS:.0f} pairs a night where nothing has changed.")


if __name__ == "__main__":
    main()
