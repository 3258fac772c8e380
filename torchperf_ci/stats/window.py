"""The newest runs of each series against its past: how far off are they, and how surprising is that?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from torchperf_ci.stats.memory import memories, variance_of_mean
from torchperf_ci.stats.noise import level_and_sigma
from torchperf_ci.stats.past import MIN_HISTORY, NEWEST, ONE_SITTING, past
from torchperf_ci.stats.tails import Tails, learn_tails

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]

MEDIAN_VARIANCE = np.pi / 2
"""Variance of the median of n normal values, times n/σ²."""
SIGMA_EFFICIENCY = 0.5
"""Degrees of freedom of :func:`robust_sigma`, as a share of those of the standard deviation of normal values. It was
measured: 0.6 to 0.7 for normal values, 0.4 for Student's with 4 degrees of freedom."""
LEAD = 0.5
"""A spike and an ordinary run are no two runs that agree."""
BEYOND = 1.5
"""So many times as far as any as many runs of the past several runs must be off to be proof: a machine that has two
speeds shows either for some nights."""
NO_PROOF = 1.0
"""Scores up to here are no proof anyway, so nothing like them is looked for in the past."""
BACK = 4.0
"""Standard errors by which the newest run is off from those before it where what they have shown is over."""


@dataclass(frozen=True)
class Window:
    """The newest ``runs`` of each series against the past before them; arrays of shape (series,), NaN without a past.

    ``old`` and ``new`` are log levels, ``sigma`` is the noise between runs with ``freedom`` degrees of freedom,
    ``history`` the number of past runs. ``score`` is standard normal where nothing has changed, and ``spread`` the
    standard error of ``new - old``, in σ.
    ``rise`` and ``fall`` are the scores of a rise and of a fall that the runs agree on: of several runs, none counts
    for more than :data:`LEAD` beyond the next, memory is taken for as large as it may be, and they are 0 where as many
    runs of the past were as far off by themselves. All scores are 0 where the newest run is back: what was seen in
    those before it is over.
    """

    runs: int
    old: Floats
    new: Floats
    sigma: Floats
    history: Ints
    freedom: Floats
    score: Floats
    rise: Floats
    fall: Floats
    spread: Floats

    def half_width(self, tails: Tails, score: float) -> Floats:
        """How far from the estimate an interval reaches, whose ends have this ``score``."""
        return self.sigma * self.spread * tails.deviation(np.full(len(self.old), score), self.freedom)

    def detectable(self, tails: Tails, score: float, power: float, least: Floats) -> Floats:
        """The change that reaches ``score``, and the ``least`` effect, but for the normal score ``power``."""
        evident = self.sigma * tails.deviation(score * self.spread, self.freedom)
        return np.asarray(np.maximum(evident, least) + power * self.sigma * self.spread)


def past_tails(values: Floats) -> Tails:
    """Tails of the deviations of the past, (series, runs), from its own median, where there is enough of it."""
    before = past(values, NEWEST)
    history = (~np.isnan(before)).sum(axis=1)
    before, history = before[history >= MIN_HISTORY], history[history >= MIN_HISTORY]
    level, sigma = level_and_sigma(before)
    deviations = (before - level[:, None]) / sigma[:, None]
    # A value pulls the median towards itself.
    return learn_tails(deviations / np.sqrt(1 - 1 / history)[:, None])


def window(
    values: Floats, runs: int, tails: Tails, sittings: Ints, is_one_sitting: NDArray[np.bool_]
) -> Window:
    """Set the newest ``runs`` of log ``values``, (series, runs), against their past.

    ``sittings`` are those of :func:`judge`; ``is_one_sitting``, shape (series,), says whose past is of a single one.
    """
    before, newest = past(values, runs), values[:, -runs:]
    history = (~np.isnan(before)).sum(axis=1)
    told = np.where(is_one_sitting, np.minimum(history, ONE_SITTING), history)
    freedom = _freedom(told)
    old, sigma = level_and_sigma(before)
    likely, largest = memories((before - old[:, None]) / sigma[:, None], history, MIN_HISTORY)
    spread, cautious = (_spread(sittings[:, -runs:], told, memory) for memory in (likely, largest))
    z = (newest - old[:, None]) / sigma[:, None]
    scores = tails.score(z, freedom[:, None])
    scores[_is_over(z)] = 0.0
    scores[history < MIN_HISTORY] = np.nan
    return Window(
        runs=runs,
        old=old,
        new=newest.mean(axis=1),
        sigma=sigma,
        history=history,
        freedom=freedom,
        score=scores.mean(axis=1) / spread,
        rise=_never_seen(_agreed(scores), newest, before, old) / cautious,
        fall=_never_seen(_agreed(-scores), -newest, -before, -old) / cautious,
        spread=spread,
    )


def _spread(sittings: Ints, history: Ints, memory: Floats) -> Floats:
    """Standard error, in σ, of the mean of the newest runs less the median of the past, whose runs remember."""
    of_past = (1 + memory) / (1 - memory) * MEDIAN_VARIANCE / np.maximum(history, 1)
    return np.asarray(np.sqrt(variance_of_mean(memory, sittings) + of_past))


def _is_over(z: Floats) -> NDArray[np.bool_]:
    """Rows of deviations, in σ, whose last is back: not half as far off as those before, by more than noise tells."""
    if z.shape[1] == 1:
        return np.zeros(len(z), dtype=bool)
    before, newest = z[:, :-1].mean(axis=1), z[:, -1]
    side, apart = np.sign(before), BACK * np.sqrt(1 + 1 / (z.shape[1] - 1))
    return np.asarray((side * (before - newest) > apart) & (side * newest < side * before / 2))


def _never_seen(agreed: Floats, newest: Floats, past: Floats, level: Floats) -> Floats:
    """``agreed``, but 0 in rows of whose past as many successive runs were all above the level by nearly as much."""
    runs = newest.shape[1]
    rows = np.flatnonzero(agreed > NO_PROOF)
    if past.shape[1] < runs or not rows.size:
        return agreed
    together = past[rows, runs - 1 :]
    for lag in range(1, runs):
        together = np.minimum(together, past[rows, runs - 1 - lag : -lag])
    seen = np.where(np.isnan(together), -np.inf, together).max(axis=1) - level[rows]
    was_there = newest[rows].mean(axis=1) - level[rows] <= BEYOND * seen
    agreed[rows[was_there]] = 0.0
    return agreed


def _agreed(scores: Floats) -> Floats:
    """The mean of each row, of which the largest counts for no more than LEAD beyond the next."""
    ordered = np.sort(scores, axis=1)
    if ordered.shape[1] > 1:
        ordered[:, -1] = np.minimum(ordered[:, -1], ordered[:, -2] + LEAD)
    return np.asarray(ordered.mean(axis=1))


def _freedom(history: Ints) -> Floats:
    return np.asarray(SIGMA_EFFICIENCY * np.maximum(history - 1, 1), dtype=np.float64)
