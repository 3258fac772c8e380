"""Compare the newest runs of each series with its past, after subtracting the offset of their machine.

Such an offset moves hundreds of series together and would make as many false candidates. So what most series of a job
share is subtracted, but no more than such offsets have been in the past: if a job deviates further, its offset is not
an ordinary one, and the rest remains visible.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from torchperf_ci.stats.autocorrelation import autocorrelations, variance_of_mean
from torchperf_ci.stats.noise import MAD_TO_SIGMA, Tails, learn_tails, level_and_sigma
from torchperf_ci.stats.past import MIN_HISTORY, NEWEST, ONE_SESSION, last_excursions, past

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from torchperf_ci.stats import Flags, Floats, Ints, Places


MIN_SERIES = 30
"""Fewest series in a job with which what they share can be separated from what is their own."""
MIN_JOBS = 8
"""Fewest jobs of a group with which the size of its ordinary offsets is known."""
ORDINARY = 3.0
"""An offset is ordinary up to this many standard deviations of the offsets of its group."""
STEADIEST = 0.005
"""σ below which the weight of a series grows no further: a handful of constant series must not outvote all others."""


def machine_offsets(
    residuals: Floats,
    sigma: Floats,
    jobs: Ints,
    groups: Ints,
) -> Floats:
    """Return the ordinary offset of each value's job, in log units, shape (series, runs); 0 where unknown.

    ``residuals``, shape (series, runs), are log values less the level of their series, NaN where there are none;
    ``sigma``, shape (series,), is its noise. ``jobs``, shape (series, runs), numbers the jobs, below 0 where unknown;
    ``groups``, shape (series,), the kinds of machine and metric. A job's offset is the weighted median (weights 1/σ) of
    its residuals, clipped to 3 σ of its group's offsets, where σ is estimated from their median absolute value. The
    newest jobs do not count for it if there are more others: a change of all series would make itself look ordinary.
    """
    offsets = np.zeros(residuals.shape)
    usable = ~np.isnan(residuals) & (jobs >= 0) & ~np.isnan(sigma)[:, None]
    rows, _ = np.nonzero(usable)
    if not rows.size:
        return offsets
    numbers = jobs.max() + 1
    pairs, pair = np.unique(groups[rows] * numbers + jobs[usable], return_inverse=True)
    weights = 1 / np.maximum(sigma, STEADIEST)[rows]
    median, count = _weighted_medians(residuals[usable], weights, pair, pairs.size)
    known = count >= MIN_SERIES
    is_new = np.isin(pairs % numbers, jobs[:, -NEWEST:])
    ordinary = _ordinary(np.where(known, median, np.nan), pairs // numbers, is_new)
    offsets[usable] = np.where(known, np.clip(median, -ordinary, ordinary), 0.0)[pair]
    return offsets


def _weighted_medians(values: Floats, weights: Floats, label: Places, labels: int) -> tuple[Floats, Ints]:
    """Return the weighted median and the number of values of each label."""
    order = np.lexsort((values, label))
    total = np.cumsum(weights[order])
    count = np.bincount(label, minlength=labels)
    ends = np.cumsum(count)
    before = np.concatenate([[0.0], total])[ends - count]
    middle = np.searchsorted(total, (before + total[ends - 1]) / 2)
    return values[order][np.minimum(middle, ends - 1)], count


def _ordinary(medians: Floats, group: Ints, is_new: Flags) -> Floats:
    """Return the largest ordinary offset of each job's group, 0 where there are too few jobs."""
    largest = np.zeros(medians.shape)
    for one in np.unique(group):
        members = group == one
        known, earlier = (np.abs(medians[some & ~np.isnan(medians)]) for some in (members, members & ~is_new))
        if known.size >= MIN_JOBS:
            usual = earlier if earlier.size > NEWEST else known
            largest[members] = ORDINARY * MAD_TO_SIGMA * np.median(usual)
    return largest


MEDIAN_VARIANCE = np.pi / 2
"""Variance of the median of n normal values, times n/σ²."""
SIGMA_EFFICIENCY = 0.5
"""Degrees of freedom of the σ of :func:`level_and_sigma` relative to those of the standard deviation of normal values.
Measured: 0.6 to 0.7 for normal values, 0.4 for Student's with 4 degrees of freedom."""
LEAD = 0.5
"""Most by which the largest score counts beyond the next: a spike and an ordinary run are not two runs that agree."""
NO_PROOF = 2.8
"""Scores up to this are no proof anyway, so the past is not searched for excursions like them."""
LATE = 8
"""Most newest runs that are compared with those before."""
MAX_SINCE = 20
"""Newest runs among which the beginning of a change is searched for: more are a level of their own."""
BACK = 4.0
"""Standard errors by which the newest run must differ from those before it to show that their deviation is over."""


@dataclass(frozen=True)
class GateRuns:
    """The runs that windows are cut from; arrays of shape (series, runs), the newest run in the last column.

    ``values`` are the logarithms of the current level; ``whole`` also contains those before it, to search for
    excursions. ``sessions`` are those of :func:`judge`; ``is_one_session``, shape (series,), says which pasts come from
    a single session. ``memory``, shape (series, 2), is the result of :func:`past_autocorrelation`.
    """

    values: Floats
    whole: Floats
    sessions: Ints
    is_one_session: Flags
    memory: Floats

    def of_rows(self, rows: Places) -> GateRuns:
        """Return the runs of some series."""
        return GateRuns(*(getattr(self, field.name)[rows] for field in fields(self)))

    def without_newest(self) -> GateRuns:
        """Return the runs as they were before the newest one."""
        return replace(
            self, values=self.values[:, :-1], whole=self.whole[:, :-1], sessions=self.sessions[:, :-1]
        )


@dataclass(frozen=True)
class Window:
    """The newest ``runs`` of each series against the past before them; arrays of shape (series,), NaN without a past.

    ``old`` and ``new`` are log levels, ``sigma`` is the noise between runs with ``freedom`` degrees of freedom,
    ``history`` the number of past runs. ``score`` is standard normal where nothing has changed, and ``spread`` the
    standard error of ``new - old``, in σ.

    ``rise`` and ``fall`` are the scores of a rise and of a fall that the runs agree on: with several runs, the largest
    score counts at most :data:`LEAD` beyond the next, and the cautious upper value of the autocorrelation is used. They
    are 0 where the past has been at such a level before and has left it again: ``rise_seen`` and ``fall_seen``, shape
    (series, 2), are the results of :func:`last_excursions`. All scores are 0 where the newest run is back, so that the
    deviation of the runs before it is over.
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
    rise_seen: Ints
    fall_seen: Ints

    def among(self, rows: Places, series: int) -> Window:
        """Expand the window of the ``rows`` to all of ``series`` series; the others have no past."""
        known = (getattr(self, field.name) for field in fields(self)[1:])
        return Window(self.runs, *(_among(part, rows, series) for part in known))

    def half_width(self, tails: Tails, score: float) -> Floats:
        """Return half the width of the interval whose ends have this ``score``."""
        return self.sigma * self.spread * tails.deviation(np.full(len(self.old), score), self.freedom)

    def detectable(self, tails: Tails, score: float, power: float, least: Floats) -> Floats:
        """Return the change that reaches both ``score`` and the ``least`` effect with a given power.

        ``power`` is the normal score of the probability to miss it.
        """
        evident = self.sigma * tails.deviation(score * self.spread, self.freedom)
        return np.asarray(np.maximum(evident, least) + power * self.sigma * self.spread)


def settled_deviations(values: Floats) -> Floats:
    """Return the deviations of past runs from their median, in σ, shape (series, past runs); NaN if too few."""
    before = past(values, NEWEST)
    level, sigma = level_and_sigma(before)
    sigma[(~np.isnan(before)).sum(axis=1) < MIN_HISTORY] = np.nan
    return np.asarray((before - level[:, None]) / sigma[:, None])


def past_tails(deviations: Floats) -> Tails:
    """Learn the tails of :func:`settled_deviations`."""
    history = (~np.isnan(deviations)).sum(axis=1)
    # A value pulls the median towards itself.
    return learn_tails(deviations / np.sqrt(1 - 1 / np.maximum(history, 2))[:, None])


def past_autocorrelation(deviations: Floats) -> Floats:
    """Estimate each series' autocorrelation and its cautious upper value, shape (series, 2).

    ``deviations`` are those of :func:`settled_deviations`. The last of them are left out, because they may belong to a
    change already, which would look like autocorrelation.
    """
    before = deviations[:, : max(0, deviations.shape[1] - (LATE - NEWEST))]
    return np.stack(autocorrelations(before, (~np.isnan(before)).sum(axis=1), MIN_HISTORY), axis=1)


def window(known: GateRuns, runs: int, tails: Tails) -> Window:
    """Compare the newest ``runs`` with the past of the current level."""
    before, newest = past(known.values, runs), known.values[:, -runs:]
    history = (~np.isnan(before)).sum(axis=1)
    counted = np.where(known.is_one_session, np.minimum(history, ONE_SESSION), history)
    freedom = SIGMA_EFFICIENCY * np.maximum(counted - 1, 1)
    old, sigma = level_and_sigma(before)
    spread, cautious = (_spread(known.sessions[:, -runs:], counted, memory) for memory in known.memory.T)
    z = (newest - old[:, None]) / sigma[:, None]
    scores = tails.score(z, freedom[:, None])
    scores[_is_over(z)] = 0.0
    scores[history < MIN_HISTORY] = np.nan
    rise, rise_seen = _never_seen(_agreed(scores) / cautious, known.whole, runs, old)
    fall, fall_seen = _never_seen(_agreed(-scores) / cautious, -known.whole, runs, -old)
    return Window(
        runs=runs,
        old=old,
        new=newest.mean(axis=1),
        sigma=sigma,
        history=history,
        freedom=freedom,
        score=scores.mean(axis=1) / spread,
        rise=rise,
        fall=fall,
        spread=spread,
        rise_seen=rise_seen,
        fall_seen=fall_seen,
    )


def windows_since_change(
    runs: GateRuns, windows: Sequence[Window], chosen: Places, changed: Flags, tails: Tails
) -> tuple[Sequence[Window], Places, Ints]:
    """Return the windows and those that begin with a change, which one now describes each series, and the runs since.

    ``chosen``, shape (series,), is the window that shows the change best, where there is one (``changed``). Where it
    begins earlier than the change, the mean of its runs would be less than the change.
    """
    every, best, rows = [*windows], chosen.copy(), np.flatnonzero(changed)
    old, new = (
        np.stack([getattr(one, level) for one in windows])[chosen[rows], rows] for level in ("old", "new")
    )
    since = np.array([one.runs for one in windows])[chosen]
    counts = runs_since_change(runs.values[rows], old, new)
    counts = np.where(counts > 0, counts, since[rows])
    later = counts < since[rows]
    for count in np.unique(counts[later]).tolist():
        some = rows[later & (counts == count)]
        best[some] = len(every)
        every.append(window(runs.of_rows(some), count, tails).among(some, len(chosen)))
    since[rows] = counts
    return every, best, since


def runs_since_change(values: Floats, old: Floats, new: Floats) -> Ints:
    """Return how many of the newest runs of each series are at the level ``new`` rather than ``old``; 0 if unclear.

    The split is the one that fits best, with values clipped at one step below, and those of more than one step beyond,
    which are of a third level, like old ones.
    """
    place = (values[:, : -1 - MAX_SINCE : -1] - old[:, None]) / (new - old)[:, None]
    gain = np.cumsum(np.where(place <= 2, np.maximum(place, -1.0), 0.0) - 0.5, axis=1)
    return np.where(gain.max(axis=1) > 0, gain.argmax(axis=1) + 1, 0)


def _among(part: NDArray[Any], rows: Places, series: int) -> NDArray[Any]:
    missing = np.nan if part.dtype.kind == "f" else 0
    found = np.full((series, *part.shape[1:]), missing, dtype=part.dtype)
    found[rows] = part
    return found


def _spread(sessions: Ints, history: Ints, memory: Floats) -> Floats:
    """Return the standard error, in σ, of the mean of the newest runs less the median of the past.

    ``memory`` is the autocorrelation of the runs.
    """
    of_past = (1 + memory) / (1 - memory) * MEDIAN_VARIANCE / np.maximum(history, 1)
    return np.asarray(np.sqrt(variance_of_mean(memory, sessions) + of_past))


def _is_over(z: Floats) -> Flags:
    """Whether the deviation, in σ, of each row is over: the last run, or each of the last two, is back.

    A run is back if it is less than half as far off as those before. A single one must also differ from them by more
    than noise explains.
    """
    over = np.zeros(len(z), dtype=bool)
    for back in range(1, min(3, z.shape[1])):
        before, newest = z[:, :-back].mean(axis=1), z[:, -back:]
        side = np.sign(before)
        is_back = (side[:, None] * newest < (side * before / 2)[:, None]).all(axis=1)
        if back == 1:
            is_back &= side * (before - newest[:, 0]) > BACK * np.sqrt(1 + 1 / (z.shape[1] - 1))
        over |= is_back
    return over


def _never_seen(agreed: Floats, whole: Floats, runs: int, level: Floats) -> tuple[Floats, Ints]:
    """Return ``agreed``, but 0 in rows with a past excursion as high as the newest ``runs``, and these excursions."""
    seen = np.zeros((len(agreed), 2), dtype=np.int64)
    rows = np.flatnonzero(agreed > NO_PROOF)
    if runs > 1 and rows.size:
        seen[rows] = last_excursions(whole[rows], runs, level[rows])
    return np.where(seen[:, 0] > 0, 0.0, agreed), seen


def _agreed(scores: Floats) -> Floats:
    """Return the mean of each row, in which the largest value counts at most LEAD more than the next."""
    ordered = np.sort(scores, axis=1)
    if ordered.shape[1] > 1:
        ordered[:, -1] = np.minimum(ordered[:, -1], ordered[:, -2] + LEAD)
    return np.asarray(ordered.mean(axis=1))
