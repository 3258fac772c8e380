"""A baseline: a small past that is committed beside the code, one for each fingerprint."""

from __future__ import annotations

import datetime
import hashlib
import json
from collections import defaultdict
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

from torchperf_ci.series.comparability import CASE_FACTS
from torchperf_ci.series.info import measured
from torchperf_ci.series.outcome import passed
from torchperf_ci.series.series import Point

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from torchperf_ci.series.series import Points, Series

_HEX_DIGITS = 12


@dataclass(frozen=True)
class Provenance:
    """Where a baseline comes from. ``date`` is ISO 8601 in UTC, ``by`` whoever made it, ``command`` how."""

    reason: str
    date: str
    by: str
    command: str
    torchperf: str


@dataclass(frozen=True)
class Row:
    """One series: ``values`` has one number a run, ``facts`` are the case's own part of the fingerprint."""

    series: Series
    facts: Mapping[str, str]
    values: Sequence[float]


@dataclass(frozen=True)
class Baseline:
    """What was measured on machines of which the facts ``machine`` hold, at one ``commit`` and one of PyTorch."""

    machine: Mapping[str, str]
    commit: str
    torch: str
    provenance: Provenance
    rows: Sequence[Row]

    @property
    def digest(self) -> str:
        """Equal exactly where ``machine`` is; the same as the fingerprint in records."""
        canonical = json.dumps(dict(self.machine), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(canonical.encode()).hexdigest()[:_HEX_DIGITS]

    @property
    def runs(self) -> int:
        """The most runs that any series has."""
        return max(len(row.values) for row in self.rows)


def baselines_of(points: Points, provenance: Provenance) -> list[Baseline]:
    """A baseline for each machine that measured ``points``; what has neither a number nor an outcome is left out."""
    found: dict[str, list[tuple[Series, list[Point]]]] = defaultdict(list)
    for series, row in points.items():
        for facts, some in _by_facts(row).items():
            found[facts].append((series, some))
    return [_baseline(rows, provenance) for rows in found.values()]


def updated(old: Iterable[Baseline], new: Iterable[Baseline]) -> list[Baseline]:
    """``new`` in the place of those with the same fingerprint; in the order of what the machines are."""
    by_digest = {one.digest: one for one in chain(old, new)}
    return sorted(by_digest.values(), key=lambda one: (sorted(one.machine.items()), one.digest))


def points_of(baselines: Iterable[Baseline]) -> Points:
    """The points of all baselines, as if they were history."""
    found: dict[Series, list[Point]] = defaultdict(list)
    for one in baselines:
        when = int(datetime.datetime.fromisoformat(one.provenance.date).timestamp())
        for row in one.rows:
            facts = {**one.machine, **row.facts}
            found[row.series] += [
                Point(
                    value,
                    (value,),
                    timestamp=when,
                    commit=one.commit,
                    fingerprint=facts,
                    info={"torch": one.torch} if one.torch else {},
                    run=f"{one.digest} {number}",
                )
                for number, value in enumerate(row.values, start=one.runs - len(row.values))
                if measured(row.series.metric, {}, [value])
            ]
    return found


def _by_facts(row: Sequence[Point]) -> dict[str, list[Point]]:
    """The points of each machine, those that say anything."""
    found: dict[str, list[Point]] = defaultdict(list)
    for point in row:
        machine = {name: value for name, value in point.fingerprint.items() if name not in CASE_FACTS}
        if point.value is not None or passed(point) is not None:
            found[json.dumps(machine, sort_keys=True)].append(point)
    return found


def _baseline(rows: Sequence[tuple[Series, Sequence[Point]]], provenance: Provenance) -> Baseline:
    newest = max((row[-1] for _, row in rows), key=lambda point: point.timestamp)
    machine, _ = _parted(newest.fingerprint)
    return Baseline(
        machine,
        newest.commit,
        newest.info.get("torch", ""),
        provenance,
        [_row(series, row) for series, row in sorted(rows, key=lambda item: item[0])],
    )


def _row(series: Series, points: Sequence[Point]) -> Row:
    """Of several batch sizes the newest counts."""
    _, facts = _parted(points[-1].fingerprint)
    same = [point for point in points if point.fingerprint == points[-1].fingerprint]
    return Row(series, facts, [_number(point) for point in same])


def _parted(facts: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """The machine's facts, and the case's own."""
    own = {name: facts[name] for name in CASE_FACTS if name in facts}
    return {name: value for name, value in facts.items() if name not in own}, own


def _number(point: Point) -> float:
    """The value to six digits, far below any noise; an outcome told in words as 1 or 0."""
    if point.value is None:
        return float(bool(passed(point)))
    return point.value if point.value.is_integer() else float(f"{point.value:.6g}")
