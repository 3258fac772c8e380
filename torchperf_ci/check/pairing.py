"""Pair new points with the past points that they can be compared with."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from torchperf_ci.document import change_text, counted
from torchperf_ci.metrics import MIN_EFFECT, kind_of
from torchperf_ci.series.points import WORKLOAD_CHANGED, Point, Points, Series, runs_of, short_id
from torchperf_ci.stats.creep import CREEP_RUNS
from torchperf_ci.stats.past import NEWEST
from torchperf_ci.verdicts.verdict import CommitRange, MeasuredPoint, Verdict, commit_ends_of, measured_commit

MAX_CHARTED = 40
"""Most points of a series in the evidence, the newest ones."""
MAX_NEW_CHARTED = 20
"""Most new points among them, so that the chart still shows the old level."""


@dataclass(frozen=True)
class SeriesPairing:
    """A series with new points. All points in ``old`` and ``new`` have numbers and one fingerprint, oldest first.

    ``elsewhere`` are the last points of the past if none of it is comparable: the newest runs, which prove no change
    yet, and the one before.
    """

    series: Series
    old: Sequence[Point]
    new: Sequence[Point]
    elsewhere: Sequence[Point] = ()

    @property
    def newest(self) -> Point:
        """The last new point."""
        return self.new[-1]

    @property
    def machine(self) -> str:
        """A digest of the facts that all points have in common; empty without any."""
        facts = self.newest.fingerprint
        return short_id(*(part for fact in sorted(facts.items()) for part in fact)) if facts else ""


def pair_with_past(series: Series, old: Sequence[Point], new: Sequence[Point]) -> SeriesPairing:
    """Pair new points, at least one of which has a number, with the comparable points of the past.

    If the new points come from several machines, only those of the newest point's machine count.
    """
    measured = [point for point in new if point.value is not None]
    facts = measured[-1].fingerprint
    past = [point for point in old if point.value is not None]
    comparable = [point for point in past if point.fingerprint == facts]
    return SeriesPairing(
        series,
        comparable,
        [point for point in measured if point.fingerprint == facts],
        () if comparable else of_newest_runs(past, NEWEST + 1),
    )


def several_machines(new: Points) -> str:
    """Return a note if some new points are not judged because they are not comparable with the newest ones.

    All outcomes are judged, whatever their machine.
    """
    differing_names = [differing for row in _measured(new).values() if (differing := _differing_names(row))]
    if not differing_names:
        return ""
    names = ", ".join(sorted(set().union(*differing_names)))
    return (
        f"{_series_have(len(differing_names))} new points of several machines or batch sizes, which differ in {names}; "
        "of each only those of the newest machine are judged: check each machine's records by itself"
    )


def _measured(points: Points) -> Points:
    """Return the points of series that are not outcomes."""
    return {series: row for series, row in points.items() if kind_of(series.metric) != "outcome"}


def _series_have(number: int) -> str:
    return counted(number, "series has", "series have")


def _differing_names(points: Iterable[Point]) -> set[str]:
    """Return the names of the facts that differ between points with a number."""
    telling = [point.fingerprint for point in points if point.value is not None]
    return {name for facts in telling for name, _ in facts.items() ^ telling[-1].items()}


def several_numbers(old: Points, new: Points) -> str:
    """Return a note if some series have several numbers of one job, in a new run or the last one before; else empty."""
    rows = [[*old.get(series, ())[-2:], *row] for series, row in _measured(new).items()]
    count = sum(map(_has_several_numbers, rows))
    return (
        f"{_series_have(count)} several numbers of one run, whose median is judged and "
        "shifts if one is missing: give different cases different names, and runs without a commit or time folders of "
        "their own"
        if count
        else ""
    )


def _has_several_numbers(points: Iterable[Point]) -> bool:
    sources = [(point.run, point.job_id, point.fingerprint) for point in points if point.value is not None]
    return any(before == after for before, after in pairwise(sources))


def judged_by_earlier(verdicts: Iterable[Verdict], new: Points) -> str:
    """Return a note on series that are judged although a later new run has no number of them; else empty.

    A run is later if it shares a series with their last run: the runs of shards may have nothing in common.
    """
    runs = runs_of(point for row in new.values() for point in row)
    places = {run: place for place, run in enumerate(runs)}
    last: dict[str, int] = defaultdict(int)
    for row in new.values():
        newest = max(places[point.run] for point in row)
        for point in row:
            last[point.run] = max(last[point.run], newest)
    judged = {verdict.series for verdict in verdicts if verdict.verdict != "missing"}
    count = 0
    for series in judged & _measured(new).keys():
        own = [point.run for point in new[series] if point.value is not None]
        count += bool(own) and last[own[-1]] > places[own[-1]]
    return f"{_series_have(count)} no number in the newest run, so an earlier one is judged" if count else ""


def unseen_between(verdicts: Iterable[Verdict]) -> str:
    """Return a note on the commits between which nothing is proven, because the machine is another; else empty."""
    moved = [
        verdict.evidence.commits
        for verdict in verdicts
        if verdict.verdict == "not-comparable" and not verdict.why.startswith(WORKLOAD_CHANGED)
    ]
    ends = commit_ends_of(moved)
    if not ends:
        return ""
    good, bad = (end[:10] for end in ends[0])
    were = "was" if len(moved) == 1 else "were"
    return (
        f"{len(moved):,} series {were} measured under other conditions than before, so later runs here neither show "
        f"nor confirm what changed from {good} to {bad}: measure both on this machine, with `torchperf compare`"
    )


def crept_up(verdicts: Iterable[Verdict]) -> str:
    """Return a note on series that have become worse by steps too small to be judged; empty if none has."""
    shares = {
        str(verdict.series): share
        for verdict in verdicts
        if isinstance(share := verdict.evidence.others.get("crept"), float)
    }
    if not shares:
        return ""
    worst = max(shares, key=lambda name: abs(shares[name]))
    return (
        f"{_series_have(len(shares))} become worse than {CREEP_RUNS} runs before by steps too small to be judged, "
        f"{'the most ' if len(shares) > 1 else ''}{worst} by {change_text(shares[worst])}: see `torchperf history`"
    )


def subtracted(verdicts: Iterable[Verdict]) -> str:
    """Return a note if much is subtracted from series because their whole job shows it; empty if not.

    A change that slows down the whole suite shows in the same way.
    """
    known = (verdict.evidence.others.get("machine_offset") for verdict in verdicts)
    large = [share for share in known if isinstance(share, float) and abs(share) >= MIN_EFFECT / 2]
    if not large:
        return ""
    return (
        f"up to {change_text(max(large, key=abs))} is subtracted from {len(large):,} series because their whole job "
        "shows it: ordinary for the machine, but a change of the whole suite would look the same"
    )


def of_newest_runs(points: Sequence[Point], count: int) -> list[Point]:
    """Return the points of the last ``count`` runs."""
    newest = set(list(dict.fromkeys(point.run for point in points))[-count:])
    return [point for point in points if point.run in newest]


def commits_around(old: Sequence[Point], new: Sequence[Point]) -> CommitRange:
    """Return the commits of the last point at the old level and the first point at the new level."""
    ends = [points[0] if points else Point(None) for points in (old[-1:], new[:1])]
    return CommitRange(*(measured_commit(end.commit, end.torch, end.timestamp) for end in ends))


def chart_points(pairing: SeriesPairing) -> Sequence[MeasuredPoint]:
    """Return the points for a chart of the series, at the old level and the new."""
    points = [*pairing.old[-MAX_CHARTED:], *pairing.new[-MAX_NEW_CHARTED:]]
    return tuple(
        MeasuredPoint(point.value, point.commit or point.torch, point.timestamp)
        for point in points[-MAX_CHARTED:]
        if point.value is not None
    )
