"""The parts of a series that may be compared: those that one machine has measured."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from torchperf_ci.history.found import MachineChange
from torchperf_ci.series.comparability import difference

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from torchperf_ci.series.series import Point


@dataclass(frozen=True)
class Part:
    """The points of one fingerprint, by their indices in the series, in order."""

    facts: Mapping[str, str]
    indices: list[int] = field(default_factory=list)


def parts_of(points: Sequence[Point]) -> list[Part]:
    """The parts, by their first point. Machines that take turns have a part each, from the first to the last point."""
    parts: list[Part] = []
    part: Part | None = None
    for index, point in enumerate(points):
        if part is None or part.facts is not point.fingerprint:  # successive points mostly share theirs
            part = _part_of(point.fingerprint, parts)
        part.indices.append(index)
    return parts


def _part_of(facts: Mapping[str, str], parts: list[Part]) -> Part:
    """The part with these facts, which is added where there is none."""
    for part in parts:
        if part.facts == facts:
            return part
    parts.append(Part(facts))
    return parts[-1]


def machine_changes(points: Sequence[Point], parts: Sequence[Part]) -> list[MachineChange]:
    """Where a part begins after all earlier ones have ended."""
    found = []
    for number, part in enumerate(parts[1:], start=1):
        first = part.indices[0]
        if all(earlier.indices[-1] < first for earlier in parts[:number]):
            differs = difference(points[first - 1].fingerprint, part.facts)
            found.append(MachineChange(first, points[first], differs))
    return found
