"""The past that new records are judged against: of the store, of a place, of a directory, or of a baseline file."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from torchperf_ci.check.baseline import points_of
from torchperf_ci.check.baseline_file import read
from torchperf_ci.errors import RecordsError, UnknownNameError, UsageError
from torchperf_ci.records.problems import Problem
from torchperf_ci.series.records import points_of_records
from torchperf_ci.series.store import groups_of_store, points_of_store
from torchperf_ci.store.migrating import open_existing
from torchperf_ci.store.of_place import is_remote, store_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from torchperf_ci.series.series import Group, Point, Points

STORE = "store"
NEWEST = 200
"""Points of each series that are read from a store: half a year of nights, to know what has come and gone in it."""
_SHOWN = 3
"""Branches that are named where the past has nothing of the one that is asked for."""


@dataclass(frozen=True)
class Past:
    """The points of some groups of a source that knows ``groups``.

    ``name`` is the source's, ``note`` says why there are no points, and ``refused`` why elements are no records.
    """

    name: str
    groups: Collection[Group]
    points: Points
    note: str = ""
    refused: Sequence[Problem] = ()


@dataclass(frozen=True)
class Source:
    """Where the past is: ``store``, a place, or the path of a directory or a baseline; of one ``branch``, if given.

    It ends before ``stop`` (Unix seconds), if that is not 0: an old run can be judged as it was then. A baseline is
    whatever its file says.
    """

    against: str
    dsn: str
    branch: str = ""
    stop: int = 0
    role: str | None = None
    """To assume where a place is a bucket."""
    is_asked: bool = False
    """Whether somebody has named the branch, so that it has to be there."""

    def read(
        self, benchmarks: Collection[str], chosen: Callable[[Collection[Group]], Collection[Group]]
    ) -> Past:
        """The past of those groups that ``chosen`` chooses among all that measure ``benchmarks``, if any are given.

        Raises :class:`UsageError`, :class:`RecordsError` for a directory without a record, and what reading raises.
        """
        if self.against == STORE:
            return self._of_store(self.dsn, benchmarks, chosen)
        if is_remote(self.against):
            return self._of_place(benchmarks, chosen)
        path = Path(self.against)
        if path.is_dir():
            return self._of_directory(path, chosen)
        if path.is_file():
            return self._of_points(points_of(read(path)), chosen)
        msg = f"--against {self.against}: there is no such directory or file; give one, a place, or `{STORE}`"
        raise UsageError(msg)

    def _of_store(
        self,
        dsn: str,
        benchmarks: Collection[str],
        chosen: Callable[[Collection[Group]], Collection[Group]],
    ) -> Past:
        with open_existing(dsn) as store:
            known = groups_of_store(store, benchmarks)
            groups = chosen(known)
            points = points_of_store(store, groups, branch=self.branch, stop=self.stop, last=NEWEST)
            note = ""
            if not points and self.branch:
                note = self._other_branches(points_of_store(store, groups, last=1))
            return Past(store.name, known, points, note)

    def _of_place(
        self, benchmarks: Collection[str], chosen: Callable[[Collection[Group]], Collection[Group]]
    ) -> Past:
        with store_of(self.against, self.role) as (dsn, outcome):
            past = self._of_store(dsn, benchmarks, chosen)
        refused = [
            Problem(item.file, item.line, "$", "; ".join(item.reasons), "refused") for item in outcome.refused
        ]
        note = f"{self.against} holds no record yet, so there is no past" if outcome.is_empty else past.note
        return replace(past, name=self.against, note=note, refused=refused)

    def _of_directory(self, path: Path, chosen: Callable[[Collection[Group]], Collection[Group]]) -> Past:
        collected = points_of_records([path])
        if not collected.points:
            why = f" ({collected.refused[0]})" if collected.refused else ""
            msg = f"--against {self.against}: holds no record{why}, so there is no past; give records, or `{STORE}`"
            raise RecordsError(msg)
        past = self._of_points(collected.points, chosen)
        then = {
            series: [point for point in row if self._is_before(point)] for series, row in past.points.items()
        }
        found = {series: row for series, row in then.items() if row}
        note = (
            past.note if found or not past.points else "all that the past has is newer than the new records"
        )
        return replace(past, points=found, note=note, refused=collected.refused)

    def _of_points(self, points: Points, chosen: Callable[[Collection[Group]], Collection[Group]]) -> Past:
        known = {series.group for series in points}
        groups = chosen(known)
        wanted = {series: row for series, row in points.items() if series.group in groups}
        ours = {
            series: [point for point in row if self._is_ours(point.branch)] for series, row in wanted.items()
        }
        found = {series: row for series, row in ours.items() if row}
        return Past(self.against, known, found, "" if found else self._other_branches(wanted))

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
        only = f"{', '.join(branches[:_SHOWN])}{' and more' if len(branches) > _SHOWN else ''}"
        return f"the past has nothing of branch {self.branch}, only of {only}: choose with --branch"
