"""Read the past that new records are judged against: from the store, a place, a directory or a baseline file."""

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
from torchperf_ci.places import is_api, is_remote, is_store
from torchperf_ci.places.packs import month_before
from torchperf_ci.records.files import NO_RECORD
from torchperf_ci.records.schema import LATEST_SECOND, Problem
from torchperf_ci.series.from_records import points_of_records
from torchperf_ci.series.from_store import NEWEST_POINTS, groups_of_store, points_of_store
from torchperf_ci.series.points import RECENT_RUNS, machine_facts, points_where, run_of
from torchperf_ci.store.migrations import open_existing, place_access, store_of_place

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from torchperf_ci.series.points import Point, Points, Series, SeriesGroup

    GroupChoice = Callable[[Collection[SeriesGroup]], Collection[SeriesGroup]]


def branch_of(new: Points, environ: Mapping[str, str] = os.environ) -> str:
    """Return the branch that the job merges into, else the records' branch, else the job's; empty if unknown."""
    base = base_branch(environ)
    branches = {point.branch for row in new.values() for point in row}
    # A ref such as a tag is not a branch that the past could be on.
    own = {branch for branch in branches if branch and not branch.startswith("refs/")}
    if base or own:
        return base or (own.pop() if len(own) == 1 else "")
    return branch_of_job(environ)


def groups_of_past(
    groups: Iterable[SeriesGroup], known: Collection[SeriesGroup], repo: str = ""
) -> dict[SeriesGroup, SeriesGroup]:
    """Return the group of the past that corresponds to each new group.

    Fields that a group leaves empty are taken from the past if it has only one possibility; the repository is first
    taken from ``repo``. A past without a repository, such as one measured by hand, is assumed to be of the new
    group's. Raises :class:`UsageError` if there are several repositories to choose from.
    """
    return {group: _on_its_hardware(_in_its_repository(group, known, repo), known) for group in groups}


def as_in_past(points: Points, called: Mapping[SeriesGroup, SeriesGroup], past: Points) -> Points:
    """Return the points with their series renamed to the groups of the past, and sorted by time.

    Those that describe no machine are taken to come from that of their series' past, if it has only one.
    """
    renamed: dict[Series, list[Point]] = defaultdict(list)
    for series, row in points.items():
        there = replace(series, **called[series.group]._asdict())
        renamed[there].extend(row if series.arch else _on_only_machine(row, past.get(there, ())))
    return {series: sorted(row, key=lambda point: point.timestamp) for series, row in renamed.items()}


def _on_only_machine(row: Iterable[Point], past: Iterable[Point]) -> Iterable[Point]:
    machines = {tuple(sorted(machine_facts(point.fingerprint).items())) for point in past}
    if len(machines) != 1:
        return row
    [facts] = map(dict, machines)
    return [point._replace(fingerprint={**facts, **point.fingerprint}) for point in row]


def why_unknown(groups: Collection[SeriesGroup], known: Collection[SeriesGroup]) -> str:
    """Return a note on why the past, with its ``known`` groups, has none of the series of ``groups``."""
    if not known:
        return "the history is empty"
    for field, word in _GROUP_FIELDS.items():
        new, old = ({getattr(group, field) for group in some} - {""} for some in (groups, known))
        if new and old and new.isdisjoint(old):
            advice = "; if it is the same, run or upload with that --benchmark-name"
            only = f"the history has no {word} {_first(new)}, only {_first(old)}"
            return only + (advice if field == "benchmark" else "")
    return "the history has none of the measured series on this machine"


_GROUP_FIELDS = {"benchmark": "benchmark", "repo": "repository", "device": "device", "arch": "machine"}


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
    """Take the machine from the past for a group without one.

    Records that describe no machine have no architecture, and their device is only a default.
    """
    if group.arch:
        return group
    same = [other for other in known if (other.repo, other.benchmark) == (group.repo, group.benchmark)]
    return same[0] if len(same) == 1 else group


RECENT_POINTS = 20
"""How many of the newest points of each series are compared."""
MIN_EQUAL_NUMBERS = 2
"""How many different fine numbers must agree between an old run and a new one for them to be the same run."""
COARSE_DIGITS = 4
"""Numbers with at most this many significant digits may be equal by chance."""
FLOAT32_TOLERANCE = 2.0**-22
"""Relative difference of two neighboring Float32 values: a store keeps Float32, not always rounded to nearest."""


def without_new_runs(old: Points, new: Points, environ: Mapping[str, str] = os.environ) -> Points:
    """Return the past without the new runs themselves, which may have been uploaded before they are judged.

    Runs are identified by name. Records without a run belong to this job's run, under which ``upload`` stores them. If
    none of these runs is in the past, such as on a developer's machine, runs are identified by their numbers: a record
    without a run matches any run with the same numbers; a record with a run only one that also has the same time,
    which ``upload --workflow-id`` has stored under another name.
    """
    own = {point.run for row in new.values() for point in row}
    nameless = {series: [point for point in row if not point.workflow_id] for series, row in new.items()}
    if any(nameless.values()):
        fields = fields_of_job(environ)  # outside of a job none, which gives a name that no run has
        own.add(run_of(0, "", int(fields.get("workflow_id", 0)), int(fields.get("run_attempt", 0)), "\0"))
    if own.isdisjoint(point.run for row in old.values() for point in row):
        own |= _runs_with_the_same_numbers(old, nameless)
        times = {point.timestamp for row in new.values() for point in row} - {0}
        own |= _runs_with_the_same_numbers(points_where(old, lambda point: point.timestamp in times), new)
    return {series: [point for point in row if point.run not in own] for series, row in old.items()}


def _runs_with_the_same_numbers(old: Points, new: Points) -> set[str]:
    """Return runs whose numbers equal those of new ones, up to the store's rounding, in every series of both."""
    shared: dict[str, set[float]] = defaultdict(set)
    different: set[str] = set()
    for series, row in new.items():
        new_values = [point.repetitions for point in row if point.repetitions]
        for point in old.get(series, ())[-RECENT_POINTS:] if new_values else ():
            if any(_is_same(point.repetitions, values) for values in new_values):
                shared[point.run].update(filter(_is_precise, point.repetitions))
            elif point.repetitions:
                different.add(point.run)
    return {run for run, numbers in shared.items() if len(numbers) >= MIN_EQUAL_NUMBERS} - different


def _is_precise(value: float) -> bool:
    return float(f"{value:.{COARSE_DIGITS}g}") != value


def _is_same(old: Sequence[float], new: Sequence[float]) -> bool:
    return len(old) == len(new) and all(
        isclose(a, b, rel_tol=FLOAT32_TOLERANCE) for a, b in zip(old, new, strict=True)
    )


def _first(names: Iterable[str]) -> str:
    known = sorted(names)
    return ", ".join(known[:_SHOWN_NAMES]) + (" and more" if len(known) > _SHOWN_NAMES else "")


STORE = "store"
_OTHER_PAST = (
    "name a place that does, a directory or a baseline, or with --store the store that ingests its records"
)
PACKED_MONTHS = 7
"""Months before the judged one whose packs are read, which hold about as many nights."""
_ALL_NEWER = "all that the past has is newer than the new records"
_DAY = 86_400
_MUCH_NEWER = (
    "the past has results that are a day newer and left out: the new run is old, or a clock was wrong"
)
_SHOWN_NAMES = 3
"""Most names that are shown if the past has nothing of the requested one."""


@dataclass(frozen=True)
class RecordedPast:
    """The points of the chosen groups. ``groups`` are all groups of the source with the same benchmark, or of any if it
    has none with the same; ``name`` is the source's name.

    ``note`` says why there are no points, and ``refused`` why elements are not records.
    """

    name: str
    groups: Collection[SeriesGroup]
    points: Points
    note: str = ""
    refused: Sequence[Problem] = ()


@dataclass(frozen=True)
class PastSource:
    """The source of the past: ``against`` is ``store``, a place, a store's DSN, or the path of a directory or baseline.

    The past is limited to one ``branch``, if given, and ends before ``stop`` (Unix seconds), if not 0, so that an old
    run can be judged as of its time. A baseline is used as it is.
    """

    against: str
    dsn: str
    branch: str = ""
    stop: int = 0
    role: str | None = None
    """ARN of a role to assume if the place is a bucket."""
    region: str | None = None
    """AWS region of the bucket."""
    is_named: bool = False
    """Whether the user has named the branch, so that its absence is an error."""
    may_be_empty: bool = False
    """Whether the past is the upload destination, not named by the user, and may not have any upload yet."""
    format_name: str = ""
    """The format of other tools' results if their content does not identify it."""
    with_others: bool = False
    """Whether to read the last runs of all other groups of the same benchmarks, too."""

    def read(self, benchmarks: Collection[str], chosen: GroupChoice) -> RecordedPast:
        """Read the past of the groups that ``chosen`` selects from all groups of ``benchmarks`` (all if empty).

        Raises :class:`UsageError`, :class:`RecordsError` for a directory without a record, and errors of reading.
        """
        if self.against == STORE or is_store(self.against):
            dsn = self.dsn if self.against == STORE else self.against
            return self._of_store(dsn, benchmarks, chosen)
        if is_api(self.against):
            raise UsageError(f"--against: an upload API gives nothing back; {_OTHER_PAST}")
        if is_remote(self.against):
            return self._of_place(benchmarks, chosen)
        path = Path(self.against)
        if path.is_dir() or (self.may_be_empty and not path.exists()):
            return self._of_directory(path, chosen)
        if path.is_file():
            return self._of_points(points_of_baselines(read_baselines(path)), chosen)
        msg = f"--against {self.against}: there is no such directory or file; give one, a place, or `{STORE}`"
        raise UsageError(msg)

    def _of_store(self, dsn: str, benchmarks: Collection[str], chosen: GroupChoice) -> RecordedPast:
        with open_existing(dsn, "say where the past is with --against or --store") as store:
            known = groups_of_store(store, benchmarks) or groups_of_store(store)
            groups = chosen(known)
            points = points_of_store(store, groups, branch=self.branch, stop=self.stop, last=NEWEST_POINTS)
            later = points_of_store(store, groups, branch=self.branch, since=self.stop + _DAY, last=1)
            note = self._newer(later) if points else self._why_none(points_of_store(store, groups, last=1))
            beside = {*known}.difference(groups) if self.with_others else ()
            others = points_of_store(store, beside, branch=self.branch, stop=self.stop, last=RECENT_RUNS)
            return RecordedPast(store.name, known, {**others, **points}, note)

    def _of_place(self, benchmarks: Collection[str], chosen: GroupChoice) -> RecordedPast:
        end = datetime.fromtimestamp(min(self.stop or time.time(), LATEST_SECOND), timezone.utc)
        first_month = month_before(end.date(), PACKED_MONTHS)
        access = place_access(self.role, self.region)
        with store_of_place(self.against, access, self.format_name, first_month) as (dsn, outcome):
            past = self._of_store(dsn, benchmarks, chosen)
        refused = [
            Problem(item.file, item.line, "$", "; ".join(item.reasons), "refused") for item in outcome.refused
        ]
        note = self._nothing_yet() if outcome.is_empty else past.note
        if not (past.points or note) and outcome.left_out:
            note = (
                f"{self.against}: packs of months before {first_month} are not read, and the rest has no past"
            )
        return replace(past, name=self.against, note=note, refused=refused)

    def _of_directory(self, path: Path, chosen: GroupChoice) -> RecordedPast:
        collected = points_of_records([path] if path.exists() else [], self.format_name)
        if not collected.points:
            if self.may_be_empty:
                return RecordedPast(self.against, (), {}, self._nothing_yet(), collected.refused)
            why = f" ({collected.refused[0]})" if collected.refused else ""
            msg = f"--against {self.against}: {NO_RECORD}{why}: there is no past; give records, or `{STORE}`"
            raise RecordsError(msg)
        past = self._of_points(collected.points, chosen)
        earlier = points_where(past.points, lambda point: not self.stop or point.timestamp < self.stop)
        note = self._newer(past.points) if earlier else _ALL_NEWER if past.points else past.note
        return replace(past, points=earlier, note=note, refused=collected.refused)

    def _of_points(self, points: Points, chosen: GroupChoice) -> RecordedPast:
        known = {series.group for series in points}
        groups = chosen(known)
        if self.with_others:
            groups = [group for group in known if group.benchmark in {one.benchmark for one in groups}]
        wanted = {series: row for series, row in points.items() if series.group in groups}
        own = points_where(wanted, lambda point: not self.branch or point.branch in ("", self.branch))
        return RecordedPast(self.against, known, own, "" if own else self._why_none(wanted))

    def _newer(self, points: Points) -> str:
        """Return a note if some of ``points`` are much newer than the new records; empty if not."""
        times = (point.timestamp for row in points.values() for point in row)
        return _MUCH_NEWER if self.stop and max(times, default=0) >= self.stop + _DAY else ""

    def _nothing_yet(self) -> str:
        return f"{self.against} holds no record yet, so there is no past"

    def _why_none(self, points: Points) -> str:
        """Return why none of ``points`` is of the branch and before the end; empty without any."""
        branches = sorted({point.branch for row in points.values() for point in row})
        if not branches:
            return ""
        if not self.branch or not {"", self.branch}.isdisjoint(branches):
            return _ALL_NEWER
        if self.is_named:
            raise UnknownNameError("--branch", self.branch, branches)
        return f"the history has no runs of branch {self.branch}, only of {_first(branches)}: choose one with --branch"
