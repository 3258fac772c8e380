"""The gate: find the series whose newest runs differ from their own past, judging all series together.

``docs/how-a-change-is-judged.md`` explains the method in prose.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from torchperf_ci.stats import newest_runs
from torchperf_ci.stats.noise import Tails, level_and_sigma, row_median, score_of_tail, tail_probability
from torchperf_ci.stats.past import NEWEST, is_one_session, of_current_level, past, without_gaps

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from torchperf_ci.stats import Flags, Floats, Ints, Places


def adjusted(p: Floats, fewest: int = 0) -> Floats:
    """Return the smallest false-discovery rate at which each test is a discovery, shape as ``p``; NaN is not a test.

    Fewer than ``fewest`` tests are filled up to that number with tests that are not discoveries.

    Benjamini & Hochberg, *Journal of the Royal Statistical Society B* 57, 1995. The rate also holds for positively
    dependent tests, as those of one machine are (Benjamini & Yekutieli, *Annals of Statistics* 29, 2001).
    """
    q = np.full(p.shape, np.nan)
    tested = np.flatnonzero(~np.isnan(p))
    order = tested[np.argsort(p[tested], kind="stable")]
    ranked = p[order] * max(order.size, fewest) / np.arange(1, order.size + 1)
    q[order] = np.minimum(np.minimum.accumulate(ranked[::-1])[::-1], 1.0)
    return q


MIN_REPETITIONS = 3
"""Fewest processes of one run that must agree before the run can be proof by itself."""
SINGLE_RUN_HISTORY = 10
"""Fewest past runs of a series with which a single new run can be proof."""
MIN_FACTOR = 1.5
"""Smallest factor that one run can prove."""
BEYOND = 2.0
"""A single run must be this many times as far off as any run of any series has ever been, because a spike may hit all
processes of a run."""
MOVED = 2.33
"""Score from which a series counts as moved; 1% of unchanged series reach it on either side."""
MOVED_MANY, MOVED_SHARE = 4, 1 / 3
"""If at least this many of a job's series, and more than this share of them, have moved, it may be the machine."""


class Repetitions(NamedTuple):
    """The lowest and the highest repetition of the newest run, as logarithms, shape (series,), NaN where there are
    fewer than :data:`MIN_REPETITIONS`."""

    lowest: Floats
    highest: Floats


def single_run_scores(
    newest: newest_runs.Window, repetitions: Repetitions, tails: Tails, least: Floats, jobs: Ints
) -> Floats:
    """Return the scores of a rise and of a fall from the newest run alone, shape (2, series), NaN where it is no proof.

    Each is the score of the repetition that supports the change least, which must be off by ``least``. ``jobs``, shape
    (series,), are the jobs of the newest run: where many series of a job have moved at once, one run cannot tell
    whether the code or the machine caused it.
    """
    may = (newest.history >= SINGLE_RUN_HISTORY) & ~_moved_together(newest.score, jobs)

    rise, fall = repetitions.lowest - newest.old, repetitions.highest - newest.old
    score_of_rise, score_of_fall = (
        tails.score(change / newest.sigma, newest.freedom) / newest.spread for change in (rise, fall)
    )
    return np.where(
        may & (np.stack([rise, -fall]) >= least), np.stack([score_of_rise, -score_of_fall]), np.nan
    )


def smallest_proof(settled: Floats, min_effect: Floats) -> Floats:
    """Return the smallest change, as a logarithm, that one run can prove, shape (series,).

    ``settled``, shape (series, runs), are past runs of each series.
    """
    known = settled[~np.isnan(settled).all(axis=1)]
    seen = np.abs(known - row_median(known)[:, None])
    farthest = np.nanmax(seen) if seen.size else 0.0
    return np.maximum(min_effect, max(np.log(MIN_FACTOR), BEYOND * farthest))


def _moved_together(scores: Floats, jobs: Ints) -> Flags:
    """Whether each series belongs to a job in which many series have moved, up or down."""
    judged = ~np.isnan(scores)
    _, job = np.unique(jobs, return_inverse=True)
    moved = np.bincount(job, weights=judged & (np.abs(np.nan_to_num(scores)) >= MOVED))
    known = np.bincount(job, weights=judged)
    together = (moved >= MOVED_MANY) & (moved > MOVED_SHARE * known)
    return np.asarray(together[job])


LEVELS: Mapping[int, float] = {1: 0.003, 2: 0.035, 3: 0.006, 5: 0.004, newest_runs.LATE: 0.0005}
"""Number of newest runs compared with those before, and the tail probability that makes a series a candidate.

Together the windows make candidates of at most 4% of unchanged series. Most of that goes to two runs, because one run
proves little.
"""
LATE_FROM = 2.0
"""Score that the second longest window must reach for the longest one, which is for late proof, to be looked at."""
WINDOW_OVERLAP = 2.5
"""Factor on the smallest of the five windows' tail probabilities. It is not five, because the windows share runs."""
MIN_TESTS = 10
"""A family of fewer tests is judged as if it had this many: a single series is tested every night, and these nights
form a family as well."""
FALSE_DISCOVERIES = 0.005
"""Share of false discoveries among the changes that history alone proves (Benjamini–Hochberg)."""
DETECT_WITHIN, POWER = 2, 0.8
"""A detectable change is found within this many runs with this probability."""
CONFIDENCE = 0.95
TOO_SMALL = 0.001
"""Tail probability at which a change certainly is smaller than the smallest that matters."""


@dataclass(frozen=True)
class GateSide:
    """One direction of change; arrays of shape (series,).

    ``candidate`` says that the series should be measured again, ``proven`` that history alone is proof, and ``rate``
    is the false-discovery rate at which it is, NaN where nothing could be judged. ``nearly`` says that a candidate is
    proven if the next run confirms it. ``seen``, shape (series, 2), is the past excursion that keeps a candidate from
    being proven, as returned by :func:`last_excursions`, 0 where none does.
    """

    candidate: Flags
    proven: Flags
    nearly: Flags
    rate: Floats
    seen: Ints


@dataclass(frozen=True)
class Judged:
    """All series judged together; arrays of shape (series,), logarithms unless stated otherwise.

    ``runs`` (a count) is how many of the newest runs were taken as ``new``: where there is a change, none from before
    it. ``since`` (a count) is how many runs there are since the change. ``change`` is ``new - old`` with its 95%
    interval ``low`` to ``high``; ``sigma`` is the noise between runs, ``detectable`` the smallest change that would
    have become a candidate within two runs with a probability of 80%, ``history`` (a count) the number of past runs.
    Values are NaN where there is too little history. ``offset`` was subtracted from the newest run for its machine.
    """

    runs: Ints
    since: Ints
    history: Ints
    old: Floats
    new: Floats
    low: Floats
    high: Floats
    sigma: Floats
    detectable: Floats
    offset: Floats
    up: GateSide
    down: GateSide

    @property
    def change(self) -> Floats:
        return self.new - self.old


def judge(
    values: Floats,
    min_effect: Floats,
    jobs: Ints | None = None,
    groups: Ints | None = None,
    repetitions: Repetitions | None = None,
    worse: Ints | None = None,
    sessions: Ints | None = None,
) -> Judged:
    """Judge the newest run of every series against its past.

    ``values``, shape (series, runs), are logarithms, oldest first, the newest in the last column, NaN where there is
    none. ``min_effect``, shape (series,), is the smallest change that matters, as a logarithm. ``jobs`` and ``groups``
    are those of :func:`machine_offsets`; without ``groups`` no offset is subtracted. Without ``repetitions`` the newest
    run is never proof by itself. ``worse``, shape (series,), is 1 where up is worse, -1 where down is worse, 0 where
    the direction is unknown: false discoveries are controlled among what got worse, so that improvements do not dilute
    them. Runs of a series with the same number in ``sessions``, shape (series, runs), were made in one session; without
    ``sessions`` each run is a session of its own.
    """
    alone = np.broadcast_to(np.arange(values.shape[1]), values.shape)
    values, jobs, sessions = without_gaps(
        values,
        np.broadcast_to(np.int64(0), values.shape) if jobs is None else jobs,
        alone if sessions is None else sessions,
    )
    whole, values = values, of_current_level(values)
    offsets = np.zeros(values.shape)
    if groups is not None:
        level, sigma = level_and_sigma(past(values, NEWEST))
        offsets = newest_runs.machine_offsets(values - level[:, None], sigma, jobs, groups)
        whole, values = whole - offsets, values - offsets
    deviations = newest_runs.settled_deviations(values)
    tails, memory = newest_runs.past_tails(deviations), newest_runs.past_autocorrelation(deviations)
    settled = past(values, NEWEST)
    is_one = is_one_session(settled, past(sessions, NEWEST), sessions[:, -1:])
    runs = newest_runs.GateRuns(values, whole, sessions, is_one, memory)
    windows = _windows(runs, tails)
    own = np.full((2, len(values)), np.nan) if repetitions is None else np.array(repetitions) - offsets[:, -1]
    single = single_run_scores(
        windows[0], Repetitions(*own), tails, smallest_proof(settled, min_effect), jobs[:, -1]
    )
    least = _least_effects(windows, tails, min_effect)
    agreed = _agreed(windows, least)
    lasting = _agreed_before(runs, tails, min_effect, agreed)
    scores = [np.fmax(agreed, single), np.fmax(lasting, single)]
    up, down = _sides(windows, least, scores, np.zeros(len(values), np.int64) if worse is None else worse)
    chosen = _choice(windows, up, down, np.fmax.reduce(single))
    changed = up.candidate | down.candidate
    windows, chosen, since = newest_runs.windows_since_change(runs, windows, chosen, changed, tails)
    return _judged(windows, chosen, since, tails, least, offsets[:, -1], (up, down))


def _judged(
    windows: Sequence[newest_runs.Window],
    chosen: Ints,
    since: Ints,
    tails: Tails,
    least: Sequence[Floats],
    offset: Floats,
    sides: tuple[GateSide, GateSide],
) -> Judged:
    """Assemble the result of each series from its ``chosen`` window."""
    end, detected, power = score_of_tail(np.array([(1 - CONFIDENCE) / 2, LEVELS[DETECT_WITHIN], 1 - POWER]))
    levels = zip(*((w.old, w.new, w.sigma, w.freedom) for w in windows), strict=True)
    old, new, sigma, freedom = (_pick(chosen, arrays) for arrays in levels)
    half = _pick(chosen, [one.half_width(tails, end) for one in windows])
    within = list(LEVELS).index(DETECT_WITHIN)
    # The past of two runs may contain some of the runs that are new.
    two = replace(windows[within], sigma=sigma, freedom=freedom)
    up, down = sides
    return Judged(
        runs=np.array([one.runs for one in windows])[chosen],
        since=since,
        history=_pick(chosen, [one.history for one in windows]).astype(np.int64),
        old=old,
        new=new,
        low=new - old - half,
        high=new - old + half,
        sigma=sigma,
        detectable=two.detectable(tails, detected, power, least[within]),
        offset=offset,
        up=up,
        down=down,
    )


def _windows(runs: newest_runs.GateRuns, tails: Tails) -> Sequence[newest_runs.Window]:
    """Return one window for each of :data:`LEVELS`."""
    windows = [newest_runs.window(runs, count, tails) for count in LEVELS if count != newest_runs.LATE]
    rows = np.flatnonzero(np.abs(windows[-1].score) >= LATE_FROM)
    late = newest_runs.window(runs.of_rows(rows), newest_runs.LATE, tails)
    return [*windows, late.among(rows, len(runs.values))]


def _least_effects(
    windows: Sequence[newest_runs.Window], tails: Tails, min_effect: Floats
) -> Sequence[Floats]:
    """Return the smallest effect in each window that may matter: at least half of ``min_effect``, and no smaller than
    what noise may have taken away from it."""
    (sure,) = score_of_tail(np.array([TOO_SMALL]))
    # The past of a longer window contains fewer of the runs that may be new.
    steadiest = np.fmin.reduce([one.sigma for one in windows])
    return [
        np.maximum(min_effect / 2, min_effect - one.half_width(tails, sure) * steadiest / one.sigma)
        for one in windows
    ]


def _agreed(windows: Sequence[newest_runs.Window], least: Sequence[Floats]) -> Floats:
    """Return the best scores of a rise and of a fall that may matter and that several runs agree on.

    The shape is (2, series), NaN where unknown.
    """
    best = np.full((2, len(least[0])), np.nan)
    for one, smallest in zip(windows, least, strict=True):
        if one.runs > 1:
            scores, change = np.stack([one.rise, one.fall]), one.new - one.old
            may_matter = np.stack([change, -change]) >= smallest
            best = np.fmax(best, np.where(may_matter | np.isnan(scores), scores, -np.inf))
    return best


def _agreed_before(runs: newest_runs.GateRuns, tails: Tails, min_effect: Floats, agreed: Floats) -> Floats:
    """Return the scores of :func:`_agreed`, but no higher than they were before the newest run.

    Most series that look proven by mistake do so for one run only.
    """
    rows = np.flatnonzero(np.fmax.reduce(agreed) > newest_runs.NO_PROOF)
    if not rows.size:
        return agreed
    before = _windows(runs.of_rows(rows).without_newest(), tails)
    then = _agreed(before, _least_effects(before, tails, min_effect[rows]))
    lasting: Floats = agreed.copy()
    lasting[:, rows] = np.minimum(agreed[:, rows], np.nan_to_num(then, nan=-np.inf))
    return lasting


def _sides(
    windows: Sequence[newest_runs.Window],
    least: Sequence[Floats],
    scores: Sequence[Floats],
    worse: Ints,
) -> tuple[GateSide, GateSide]:
    """Return the sides up and down from the scores of a rise and a fall, shape (2, series): first as they are, then as
    far as they have lasted."""
    now, lasting = (_rates(_tails_of(both, windows[0]), worse) for both in scores)
    return (
        _side(_is_candidate(windows, least, 1), now[0], lasting[0], [one.rise_seen for one in windows]),
        _side(_is_candidate(windows, least, -1), now[1], lasting[1], [one.fall_seen for one in windows]),
    )


def _side(candidate: Flags, now: Floats, lasting: Floats, seen: Sequence[Ints]) -> GateSide:
    proven = candidate & (lasting <= FALSE_DISCOVERIES)
    nearly = candidate & (now <= FALSE_DISCOVERIES) & ~proven
    excursion = seen[0]
    for one in seen[1:]:  # the longest window that has an excursion wins
        excursion = np.where(one > 0, one, excursion)
    return GateSide(
        candidate, proven, nearly, lasting, np.where((candidate & ~proven)[:, None], excursion, 0)
    )


def _is_candidate(windows: Sequence[newest_runs.Window], least: Sequence[Floats], sign: int) -> Flags:
    """Whether each series reaches, in some window, both the score of :data:`LEVELS` and the ``least`` effect in the
    direction of ``sign``."""
    candidate = np.zeros(windows[0].score.shape, dtype=bool)
    needed = score_of_tail(np.array(list(LEVELS.values())))
    for one, smallest, level in zip(windows, least, needed, strict=True):
        candidate |= (sign * (one.new - one.old) >= smallest) & (sign * one.score >= level)
    return candidate


def _tails_of(scores: Floats, newest: newest_runs.Window) -> Floats:
    """Return the tail probabilities of ``scores``, shape (2, series); NaN without a past.

    The shortest possible past leaves no runs to compare several new ones with: judged, but nothing is proven.
    """
    best: Floats = np.where(np.isnan(newest.score), np.nan, np.fmax(scores, -np.inf))
    return np.minimum(WINDOW_OVERLAP * tail_probability(best), 1.0)


def _rates(tails: Floats, worse: Ints) -> tuple[Floats, Floats]:
    """Return the false-discovery rates of a rise and of a fall from ``tails``, shape (2, series), adjusted in families.

    The families are: got worse, got better, and, for series whose direction is unknown, went up and went down.
    """
    turned = worse < 0
    rise, fall = tails
    first, second = np.where(turned, fall, rise), np.where(turned, rise, fall)
    for members in (worse != 0, worse == 0):
        first[members], second[members] = (adjusted(side[members], MIN_TESTS) for side in (first, second))
    return np.where(turned, second, first), np.where(turned, first, second)


def _choice(windows: Sequence[newest_runs.Window], up: GateSide, down: GateSide, single: Floats) -> Places:
    """Return the index of the window with the strongest evidence; 0, the newest run alone, without a candidate."""
    strength = np.array([np.abs(np.nan_to_num(one.score)) for one in windows])
    strength[0] = np.where(up.proven | down.proven, np.nan_to_num(single, nan=-1.0), strength[0])
    return np.where(up.candidate | down.candidate, strength.argmax(axis=0), 0)


def _pick(chosen: Places, arrays: Sequence[NDArray[np.generic]]) -> Floats:
    return np.asarray(np.stack(arrays)[chosen, np.arange(chosen.size)], dtype=np.float64)
