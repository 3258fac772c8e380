"""The past that new records are judged against: from the store, a place, a directory or a baseline file."""

from __future__ import annotations

import os
import time
from collections import defaultdict
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from math import isclose
from pathlib import Path
from typing import TYPE_CHECKING

from torchperf_ci.check.baselines import points_of_baselines, read_baselines
from torchperf_ci.errors import RecordsError, UnknownNameError, UsageError
from torchperf_ci.identity import base_branch, branch_of_job, fields_of_job
from torchperf_ci.places import is_api, is_store
from torchperf_ci.places.packs import month_before
from torchperf_ci.records.schema import LATEST_SECOND, Problem
from torchperf_ci.series.from_records import points_of_records
from torchperf_ci.series.from_store import groups_of_store, points_of_store
from torchperf_ci.series.points import run_of
from torchperf_ci.store.migrations import is_remote, open_existing, place_access, store_of_place

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from torchperf_ci.series.points import Point, Points, Series, SeriesGroup


def branch_of(new: Points, environ: Mapping[str, str] = os.environ) -> str:
    """What the job's pull request goes to, else the records' own branch, else the job's; empty where none is known."""
    base = base_branch(environ)
    # A tag, say, is no branch that the past could be of.
    own = {"" if point.branch.startswith("refs/") else point.branch for row in new.values() for point in row}
    if base or own != {""}:
        return base or (own.pop() if len(own) == 1 else "")
    return branch_of_job(environ)


def groups_of_past(
    groups: Iterable[SeriesGroup], known: Collection[SeriesGroup], repo: str = ""
) -> dict[SeriesGroup, SeriesGroup]:
    """The group of the past for each new one.

    What a group does not say is taken from the past where that knows only one answer; the repository first from
    ``repo``. A past that says no repository, such as one measured by hand, is of the new one. Raises
    :class:`UsageError` where there are several repositories to choose from.
    """
    return {group: _on_its_hardware(_in_its_repository(group, known, repo), known) for group in groups}


def as_in_past(points: Points, called: Mapping[SeriesGroup, SeriesGroup]) -> Points:
    """The points under the names of the past."""
    renamed: dict[Series, list[Point]] = defaultdict(list)
    for series, row in points.items():
        renamed[replace(series, **called[series.group]._asdict())].extend(row)
    return renamed


def _in_its_repository(group: SeriesGroup, known: Iterable[SeriesGroup], repo: str) -> SeriesGroup:
    repos = {other.repo for other in known if other.benchmark == group.benchmark}
    if group.repo:
        return group._replace(repo="") if repos == {""} else group
    named = sorted(repos - {""})
    if repo or len(named) <= 1:
        return group._replace(repo=repo or "".join(named))
    msg = (
        f"the records of benchmark {group.benchmark!r} do not say what repository was measured, and the past has "
        f"{' and '.join(named)}: say which with --repo-name"
    )
    raise UsageError(msg)


def _on_its_hardware(group: SeriesGroup, known: Iterable[SeriesGroup]) -> SeriesGroup:
    """A group without an architecture is one whose records describe no machine; its device is then a default."""
    if group.arch:
        return group
    same = [other for other in known if (other.repo, other.benchmark) == (group.repo, group.benchmark)]
    return same[0] if len(same) == 1 else group


RECENT_POINTS = 20
"""The newest points of each series are looked at."""
FEWEST_EQUAL_NUMBERS = 2
"""Different fine numbers that a run and a new one agree in, from which on they are the same run."""
COARSE_DIGITS = 4
"""Digits of numbers that are equal by chance, now and then."""
FLOAT32_TOLERANCE = 2.0**-22
"""A store keeps Float32, and its engine does not always round to the nearest: relative difference of two in a row."""


def without_own_runs(old: Points, new: Points, environ: Mapping[str, str] = os.environ) -> Points:
    """The past without the new runs themselves, which may have been uploaded before they are judged.

    A run is told by its name. Records that name none are of this job's run, under which ``upload`` keeps them. Only
    where none of these is in the past, such as on somebody's own machine, does a record that names no run take another
    one with the same numbers for its own. One that names a run does so, too, if the other is of the same second:
    ``upload --workflow-id`` has given it another name.
    """
    own = {point.run for row in new.values() for point in row}
    nameless = {series: [point for point in row if not point.workflow_id] for series, row in new.items()}
    if any(nameless.values()):
        own.add(_run_of_this_job(environ))
    if own.isdisjoint(point.run for row in old.values() for point in row):
        own |= _runs_with_the_same_numbers(old, nameless)
        own |= _runs_with_the_same_numbers(_of_the_same_times(old, new), new)
    return {series: [point for point in row if point.run not in own] for series, row in old.items()}


def _of_the_same_times(old: Points, new: Points) -> Points:
    times = {point.timestamp for row in new.values() for point in row} - {0}
    return {series: [point for point in row if point.timestamp in times] for series, row in old.items()}


def _run_of_this_job(environ: Mapping[str, str]) -> str:
    """Its name; outside of a job one that no run has."""
    fields = fields_of_job(environ)
    return run_of(0, "", int(fields.get("workflow_id", 0)), int(fields.get("run_attempt", 0)), "")


def _runs_with_the_same_numbers(old: Points, new: Points) -> set[str]:
    """Runs that have the same numbers as new ones in all that both have measured, up to what a store makes of them."""
    shared: dict[str, set[float]] = defaultdict(set)
    different: set[str] = set()
    for series, row in new.items():
        fresh = [point.repetitions for point in row if point.repetitions]
        for point in old.get(series, ())[-RECENT_POINTS:] if fresh else ():
            if any(_is_same(point.repetitions, values) for values in fresh):
                shared[point.run].update(filter(_is_fine, point.repetitions))
            elif point.repetitions:
                different.add(point.run)
    return {run for run, numbers in shared.items() if len(numbers) >= FEWEST_EQUAL_NUMBERS} - different


def _is_fine(value: float) -> bool:
    return float(f"{value:.{COARSE_DIGITS}g}") != value


def _is_same(kept: Sequence[float], fresh: Sequence[float]) -> bool:
    return len(kept) == len(fresh) and all(
        isclose(a, b, rel_tol=FLOAT32_TOLERANCE) for a, b in zip(kept, fresh, strict=True)
    )


STORE = "store"
_OTHER_PAST = (
    "name a place that does, a directory or a baseline, or with --store the store that it is taken into"
)
NEWEST_POINTS = 200
"""Points of each series that are read from a store: half a year of nights, to know what has come and gone in it."""
PACKED_MONTHS = 7
"""Before the one that is judged, whose packs are read: they hold as many nights."""
_SHOWN_BRANCHES = 3
"""Branches that are named where the past has nothing of the one that is asked for."""


@dataclass(frozen=True)
class RecordedPast:
    """The points of some groups of a source that knows ``groups``.

    ``name`` is the source's, ``note`` says why there are no points, and ``refused`` why elements are no records.
    """

    name: str
    groups: Collection[SeriesGroup]
    points: Points
    note: str = ""
    refused: Sequence[Problem] = ()


@dataclass(frozen=True)
class PastSource:
    """Where the past is: ``store``, a place, a store's DSN, or the path of a directory or a baseline.

    It is of one ``branch``, if given, and ends before ``stop`` (Unix seconds), if that is not 0: an old run can be
    judged as it was then. A baseline is whatever its file says.
    """

    against: str
    dsn: str
    branch: str = ""
    stop: int = 0
    role: str | None = None
    """To assume where a place is a bucket."""
    region: str | None = None
    """Of the bucket."""
    is_asked: bool = False
    """Whether somebody has named the branch, so that it has to be there."""
    may_be_empty: bool = False
    """Whether nobody has named the past: it is where uploads go, and the first of them is still to come."""
    given: str = ""
    """The format of other tools' results where their content does not tell it."""

    def read(
        self,
        benchmarks: Collection[str],
        chosen: Callable[[Collection[SeriesGroup]], Collection[SeriesGroup]],
    ) -> RecordedPast:
        """The past of those groups that ``chosen`` chooses among all that measure ``benchmarks``, if any are given.

        Raises :class:`UsageError`, :class:`RecordsError` for a directory without a record, and what reading raises.
        """
        if self.against == STORE or is_store(self.against):
            dsn = self.dsn if self.against == STORE else self.against
            return self._of_store(dsn, benchmarks, chosen)
        if is_api(self.against):
            msg = f"--against {self.against}: an upload API gives nothing back; {_OTHER_PAST}"
            raise UsageError(msg)
        if is_remote(self.against):
            return self._of_place(benchmarks, chosen)
        path = Path(self.against)
        if path.is_dir() or (self.may_be_empty and not path.exists()):
            return self._of_directory(path, chosen)
        if path.is_file():
            return self._of_points(points_of_baselines(read_baselines(path)), chosen)
        msg = f"--against {self.against}: there is no such directory or file; give one, a place, or `{STORE}`"
        raise UsageError(msg)

    def _of_store(
        self,
        dsn: str,
        benchmarks: Collection[str],
        chosen: Callable[[Collection[SeriesGroup]], Collection[SeriesGroup]],
    ) -> RecordedPast:
        with open_existing(dsn) as store:
            known = groups_of_store(store, benchmarks)
            groups = chosen(known)
            points = points_of_store(store, groups, branch=self.branch, stop=self.stop, last=NEWEST_POINTS)
            note = ""
            if not points and self.branch:
                note = self._other_branches(points_of_store(store, groups, last=1))
            return RecordedPast(store.name, known, points, note)

    def _of_place(
        self,
        benchmarks: Collection[str],
        chosen: Callable[[Collection[SeriesGroup]], Collection[SeriesGroup]],
    ) -> RecordedPast:
        end = datetime.fromtimestamp(min(self.stop or time.time(), LATEST_SECOND), timezone.utc)
        first_month = month_before(end.date(), PACKED_MONTHS)
        access = place_access(self.role, self.region)
        with store_of_place(self.against, access, self.given, first_month) as (dsn, outcome):
            past = self._of_store(dsn, benchmarks, chosen)
        refused = [
            Problem(item.file, item.line, "$", "; ".join(item.reasons), "refused") for item in outcome.refused
        ]
        note = self._nothing_yet() if outcome.is_empty else past.note
        return replace(past, name=self.against, note=note, refused=refused)

    def _of_directory(
        self, path: Path, chosen: Callable[[Collection[SeriesGroup]], Collection[SeriesGroup]]
    ) -> RecordedPast:
        if self.may_be_empty and not path.exists():
            return RecordedPast(self.against, (), {}, self._nothing_yet())
        collected = points_of_records([path], self.given)
        if not collected.points:
            if self.may_be_empty:
                return RecordedPast(self.against, (), {}, self._nothing_yet(), collected.refused)
            why = f" ({collected.refused[0]})" if collected.refused else ""
            msg = f"--against {self.against}: holds no record{why}, so there is no past; give records, or `{STORE}`"
            raise RecordsError(msg)
        past = self._of_points(collected.points, chosen)
        then = {
            series: [point for point in row if self._is_before(point)] for series, row in past.points.items()
        }
        earlier = {series: row for series, row in then.items() if row}
        note = (
            past.note if earlier or not past.points else "all that the past has is newer than the new records"
        )
        return replace(past, points=earlier, note=note, refused=collected.refused)

    def _of_points(
        self, points: Points, chosen: Callable[[Collection[SeriesGroup]], Collection[SeriesGroup]]
    ) -> RecordedPast:
        known = {series.group for series in points}
        groups = chosen(known)
        wanted = {series: row for series, row in points.items() if series.group in groups}
        of_branch = {
            series: [point for point in row if self._is_ours(point.branch)] for series, row in wanted.items()
        }
        own = {series: row for series, row in of_branch.items() if row}
        return RecordedPast(self.against, known, own, "" if own else self._other_branches(wanted))

    def _nothing_yet(self) -> str:
        return f"{self.against} holds no record yet, so there is no past"

    def _is_before(self, point: Point) -> bool:
        """Whether it is not known to be newer than what is judged."""
        return not self.stop or point.timestamp < self.stop

    def _is_ours(self, branch: str) -> bool:
        return not (self.branch and branch) or branch == self.branch

    def _other_branches(self, points: Points) -> str:
        branches = sorted({point.branch for row in points.values() for point in row})
        if not branches:
            return ""
        if self.is_asked:
            what = "--branch"
            raise UnknownNameError(what, self.branch, branches)
        only = (
            f"{', '.join(branches[:_SHOWN_BRANCHES])}{' and more' if len(branches) > _SHOWN_BRANCHES else ''}"
        )
        return f"the past has nothing of branch {self.branch}, only of {only}: choose with --branch"
