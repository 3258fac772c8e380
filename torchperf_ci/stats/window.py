"""The newest runs of each series against its past: how far off are they, and how surprising is that?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from torchperf_ci.stats.memory import memories, variance_of_mean
from torchperf_ci.stats.noise import level_and_sigma
from torchperf_ci.stats.past import MIN_HISTORY, NEWEST, past
from torchperf_ci.stats.tails import Tails, learn_tails

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

MEDIAN_VARIANCE = np.pi / 2
"""Variance of the median of n normal values, times n/σ²."""
SIGMA_EFFICIENCY = 0.5
"""Degrees of freedom of :func:`robust_sigma`, as a share of those of the standard deviation of normal values. It was
measured: 0.6 to 0.7 for normal values, 0.4 for Student's with 4 degrees of freedom."""
LEAD = 0.5
"""A spike and an ordinary run are no two runs that agree."""
BACK = 4.0
"""Standard errors by which the newest run is off from those before it where what they have shown is over."""


@dataclass(frozen=True)
class Window:
    """The newest ``runs`` of each series against the past before them; arrays of shape (series,), NaN without a past.

    ``old`` and ``new`` are log levels, ``sigma`` is the noise between runs, ``history`` the number of past runs.
    ``score`` is standard normal where nothing has changed, and ``spread`` the standard error of ``new - old``, in σ.
    ``rise`` and ``fall`` are the scores of a rise and of a fall that the runs agree on: of several runs, none counts
    for more than :data:`LEAD` beyond the next, and memory is taken for as large as it may be. All scores are 0
    where the newest run is back: what was seen in those before it is over.
    """

    runs: int
    old: Floats
    new: Floats
    sigma: Floats
    history: NDArray[np.int64]
    score: Floats
    rise: Floats
    fall: Floats
    spread: Floats

    @property
    def freedom(self) -> Floats:
        """Degrees of freedom of ``sigma``."""
        return _freedom(self.history)

    def half_width(self, tails: Tails, score: float) -> Floats:
        """How far from the estimate an interval reaches, whose ends have this ``score``."""
        return self.sigma * self.spread * tails.deviation(np.full(len(self.old), score), self.freedom)

    def detectable(self, tails: Tails, score: float, power: float, min_effect: Floats) -> Floats:
        """The change that reaches ``score``, and half of ``min_effect``, but for the normal score ``power``."""
        evident = tails.deviation((score + power) * self.spread, self.freedom)
        return np.asarray(np.maximum(self.sigma * evident, min_effect / 2 + power * self.sigma * self.spread))


def past_tails(values: Floats) -> Tails:
    """Tails of the deviations of the past, (series, runs), from its own median, where there is enough of it."""
    before = past(values, NEWEST)
    history = (~np.isnan(before)).sum(axis=1)
    before, history = before[history >= MIN_HISTORY], history[history >= MIN_HISTORY]
    level, sigma = level_and_sigma(before)
    deviations = (before - level[:, None]) / sigma[:, None]
    # A value pulls the median towards itself.
    return learn_tails(deviations / np.sqrt(1 - 1 / history)[:, None])


def window(values: Floats, runs: int, tails: Tails) -> Window:
    """Set the newest ``runs`` of log ``values``, (series, runs), against their past."""
    before, newest = past(values, runs), values[:, -runs:]
    history = (~np.isnan(before)).sum(axis=1)
    old, sigma = level_and_sigma(before)
    likely, largest = memories((before - old[:, None]) / sigma[:, None], history, MIN_HISTORY)
    spread, cautious = _spread(runs, history, likely), _spread(runs, history, largest)
    z = (newest - old[:, None]) / sigma[:, None]
    scores = tails.score(z, _freedom(history)[:, None])
    scores[_is_over(z)] = 0.0
    scores[history < MIN_HISTORY] = np.nan
    return Window(
        runs=runs,
        old=old,
        new=newest.mean(axis=1),
        sigma=sigma,
        history=history,
        score=scores.mean(axis=1) / spread,
        rise=_agreed(scores) / cautious,
        fall=_agreed(-scores) / cautious,
        spread=spread,
    )


def _spread(runs: int, history: NDArray[np.int64], memory: Floats) -> Floats:
    """Standard error, in σ, of the mean of the newest runs less the median of the past, whose runs remember."""
    of_past = (1 + memory) / (1 - memory) * MEDIAN_VARIANCE / np.maximum(history, 1)
    return np.asarray(np.sqrt(variance_of_mean(memory, runs) + of_past))


def _is_over(z: Floats) -> NDArray[np.bool_]:
    """Rows of deviations, in σ, whose last is back: not half as far off as those before, by more than noise tells."""
    if z.shape[1] == 1:
        return np.zeros(len(z), dtype=bool)
    before, newest = z[:, :-1].mean(axis=1), z[:, -1]
    side, apart = np.sign(before), BACK * np.sqrt(1 + 1 / (z.shape[1] - 1))
    return np.asarray((side * (before - newest) > apart) & (side * newest < side * before / 2))


def _agreed(scores: Floats) -> Floats:
    """The mean of each row, of which the largest counts for no more than LEAD beyond the next."""
    ordered = np.sort(scores, axis=1)
    if ordered.shape[1] > 1:
        ordered[:, -1] = np.minimum(ordered[:, -1], ordered[:, -2] + LEAD)
    return np.asarray(ordered.mean(axis=1))


def _freedom(history: NDArray[np.int64]) -> Floats:
    return np.asarray(SIGMA_EFFICIENCY * np.maximum(history - 1, 1), dtype=np.float64)
