"""The bisection rules of other tools, as their authors describe them; unspecified details are chosen in their favor.

None specifies what to do with a commit that cannot be built: here all take the next one, as `git bisect skip` does.
"""

from __future__ import annotations

import math
from functools import cache, partial
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from bisection_world import World, between

from torchperf_ci.stats.noise import tail_probability

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bisection_world import Step
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Peer = Callable[[World], Sequence[Step]]


def torchbench(world: World, runs: int, threshold: float = 0.07) -> list[Step]:
    """TorchBench, after the algorithm at the head of its bisection.py: halves whose ends differ are halved again.

    Each commit is measured once, by the mean of its runs; neighbours that differ by the threshold are named. 7% is the
    threshold of its nightly. An interval whose two halves both stay below is dropped.
    """
    means: dict[int, float] = {}

    def mean(position: int) -> float:
        if position not in means:
            means[position] = float(np.exp(world.measure(position, runs)).mean())
        return means[position]

    named, queue = [], [(0, world.n)]
    while queue:
        low, high = queue.pop()
        if mean(high) / mean(low) - 1 < threshold:
            continue
        middle = between(world, low, high)
        if middle is None:
            named.append((low, high))
        else:
            queue += [(low, middle), (middle, high)]
    return named


def binary_search(world: World, runs: int = 10, least: float = 0.02) -> list[Step]:
    """What one writes for `git bisect run`: is a commit's median nearer to the bad one's or to the good one's?

    It gives up where good and bad differ by less than ``least``.
    """

    def median(position: int) -> float:
        return float(np.median(world.measure(position, runs)))

    low, high = 0, world.n
    good, bad = median(low), median(high)
    if bad - good < math.log1p(least):
        return []
    while (middle := between(world, low, high)) is not None:
        if median(middle) > (good + bad) / 2:
            high = middle
        else:
            low = middle
    return [(low, high)]


def git_bayesect(world: World, confidence: float = 0.95, most_runs: int = 1000) -> list[Step]:
    """git_bayesect 1.2, after its README and its help: Bayes on commands that fail at two unknown rates.

    Jeffreys priors for both rates and a flat one for the commit, the good one among them, which stands for no change;
    the next commit is the one from which most information is expected, and the end is at 95%. A run fails if it is
    slower than the middle of good and bad, of ten runs each, which it is told of, too: that takes fewer runs in all.
    Without a limit it would not always end.
    """
    passed, failed = np.zeros((2, world.n + 1), dtype=np.int64)
    usable = np.ones(world.n + 1, dtype=np.bool_)
    ends = {position: world.measure(position, 10) for position in (0, world.n)}
    middle = float(np.mean([np.median(logs) for logs in ends.values()]))
    for position, logs in ends.items():
        passed[position], failed[position] = np.bincount(logs > middle, minlength=2)
    while world.runs < most_runs:
        first_bad, gain = _first_bad(passed, failed, usable)
        if first_bad.max() >= confidence:
            return _named(int(first_bad.argmax()), usable)
        chosen = int(np.where(usable, gain, -np.inf).argmax())
        usable[chosen] = world.build(chosen)
        if usable[chosen]:
            (failed if world.measure(chosen, 1)[0] > middle else passed)[chosen] += 1
    return []


def _first_bad(
    passed: NDArray[np.int64], failed: NDArray[np.int64], usable: NDArray[np.bool_]
) -> tuple[Floats, Floats]:
    """P(each commit is the first bad one), and the nats that one more run of each is expected to tell."""
    passed_before, failed_before = (np.cumsum(counts) - counts for counts in (passed, failed))
    passed_after, failed_after = passed.sum() - passed_before, failed.sum() - failed_before
    logs = _log_beta(passed_before, failed_before) + _log_beta(passed_after, failed_after)
    weights = np.where(usable, np.exp(logs - logs[usable].max()), 0.0)
    weights /= weights.sum()
    before = (failed_before + 0.5) / (passed_before + failed_before + 1)
    after = (failed_after + 0.5) / (passed_after + failed_after + 1)

    def expected(if_bad: Floats, if_good: Floats) -> Floats:
        return np.cumsum(weights * if_bad) + (weights * if_good).sum() - np.cumsum(weights * if_good)

    gain = _entropy(expected(after, before)) - expected(_entropy(after), _entropy(before))
    return weights, gain


_LOG_GAMMA = np.array([[math.lgamma(count + half) for count in range(4096)] for half in (0.5, 1.0)])


def _log_beta(passed: NDArray[np.int64], failed: NDArray[np.int64]) -> Floats:
    """ln B(passed + ½, failed + ½)."""
    return _LOG_GAMMA[0, passed] + _LOG_GAMMA[0, failed] - _LOG_GAMMA[1, passed + failed]


def _entropy(p: Floats) -> Floats:
    return -p * np.log(p) - (1 - p) * np.log1p(-p)


def _named(first_bad: int, usable: NDArray[np.bool_]) -> list[Step]:
    """The commit with those before it that were skipped; none where it is the good one itself."""
    return [(int(np.flatnonzero(usable[:first_bad]).max()), first_bad)] if first_bad else []


def pinpoint(world: World, alert: float, fewest: int = 10, most: int = 160) -> list[Step]:
    """Chromium's Pinpoint, after the documentation in catapult's models/job_state.py and models/compare.

    Neighbours among the tested commits are the same, different or unknown by two tests. Between different ones the
    middle is added; of unknown ones that with fewer runs gets as many again, from 10 up to 160. What is different and
    has nothing between is named. ``alert`` is the effect that the alert told of, which it is told too. Its runs are
    tasks of their own, so each has its own job.
    """

    def runs(position: int, count: int) -> Floats:
        return np.concatenate([world.measure(position, 1) for _ in range(count)])

    values = {position: runs(position, fewest) for position in (0, world.n)}
    while True:
        words = {
            (low, high): _compare(values[low], values[high], math.log1p(alert))
            for low, high in pairwise(sorted(values))
        }
        added = {}
        for (low, high), word in words.items():
            fewer = min(low, high, key=lambda position: values[position].size)
            if word == "different" and (middle := between(world, low, high)) is not None:
                added[middle] = runs(middle, fewest)
            elif word == "unknown" and values[fewer].size < most:
                added[fewer] = np.append(values[fewer], runs(fewer, values[fewer].size))
        if not added:
            return [step for step, word in words.items() if word == "different"]
        values |= added


def _compare(a: Floats, b: Floats, effect: float) -> str:
    """Different below 1%; unknown where an effect of the size would still have such a p-value in 1% of cases."""
    p = min(mann_whitney(a, b), kolmogorov_smirnov(a, b))
    if p <= 0.01:
        return "different"
    spread = max(np.subtract(*np.percentile(values, [75, 25])) for values in (a, b))
    size = float(np.clip(round(effect / spread, 1), 0.3, 4.0))
    return "unknown" if p <= _suspicious(size, (a.size + b.size) // 2) else "same"


@cache
def _suspicious(size: float, count: int, samples: int = 1000) -> float:
    """The 99th percentile of p-values of two normal samples that lie ``size`` interquartile ranges apart."""
    random = np.random.default_rng(count)
    shifts = random.normal(size * 1.349, 1, (samples, count)), random.normal(0, 1, (samples, count))
    return float(np.percentile([mann_whitney(a, b) for a, b in zip(*shifts, strict=True)], 99))


def mann_whitney(a: Floats, b: Floats) -> float:
    """The two-sided p-value of Mann and Whitney's U without ties, by the normal approximation."""
    ranks = np.argsort(np.argsort(np.concatenate([a, b]))) + 1
    u = ranks[: a.size].sum() - a.size * (a.size + 1) / 2
    mean, variance = a.size * b.size / 2, a.size * b.size * (a.size + b.size + 1) / 12
    z = max(abs(u - mean) - 0.5, 0) / math.sqrt(variance)
    return min(1.0, 2 * float(tail_probability(np.array(z))))


def kolmogorov_smirnov(a: Floats, b: Floats) -> float:
    """The two-sided p-value of Kolmogorov and Smirnov's test, by the limit distribution."""
    every = np.sort(np.concatenate([a, b]))
    shares = [np.searchsorted(np.sort(values), every, side="right") / values.size for values in (a, b)]
    x = float(np.abs(shares[0] - shares[1]).max()) * math.sqrt(a.size * b.size / (a.size + b.size))
    k = np.arange(1, 101)
    return float(np.clip(2 * ((-1.0) ** (k - 1) * np.exp(-2 * (k * x) ** 2)).sum(), 0, 1))


def peers(alert: float) -> dict[str, Peer]:
    """All of them, by name."""
    return {
        "TorchBench, 1 run": partial(torchbench, runs=1),
        "TorchBench, 10 runs": partial(torchbench, runs=10),
        "binary search, medians of 10": binary_search,
        "git-bayesect": git_bayesect,
        "Pinpoint-like": partial(pinpoint, alert=alert),
    }
