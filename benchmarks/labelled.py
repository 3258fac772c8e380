"""Real series with human labels of their changes: SAP's performance-regression-data-set and Mozilla's Talos series."""

from __future__ import annotations

import csv
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

NEAR = 5
"""A found point is the marked one if it is at most so many points away, and nothing nearer is."""


@dataclass(frozen=True)
class Labelled:
    """One series. ``labels`` are the first points of new levels; where not ``complete``, there may be others."""

    name: str
    values: NDArray[np.float64]
    labels: Sequence[int]
    complete: bool


@dataclass(frozen=True)
class Score:
    """What a detector made of all series: ``false`` points in the ``stable`` series, of which ``hit`` have any."""

    labels: int = 0
    found: int = 0
    stable: int = 0
    hit: int = 0
    false: int = 0
    false_beside: int = 0
    """Points beside the marked ones, in series that are wholly marked and do change."""
    unlabelled: int = 0
    """Points beside the marked ones, in series that are not wholly marked: true or false, nobody said."""

    @property
    def precision(self) -> float:
        """The share of marked points in all points, unmarked ones of incompletely marked series left out."""
        return self.found / max(1, self.found + self.false + self.false_beside)


def labelled_series(folder: Path) -> Iterator[Labelled]:
    """The series below ``folder``: ``sap_hana_small_2021`` and ``mozilla_talos``."""
    sap = folder / "sap_hana_small_2021"
    with (sap / "metadata" / "dataset_details.csv").open(newline="") as file:
        for row in csv.DictReader(file, delimiter=";"):
            with (sap / "data" / row["Dataset"]).open(newline="") as data:
                values = np.array([float(line["Measurement"]) for line in csv.DictReader(data)])
            # Their last good index, counted from 1, is the first bad one counted from 0; 0 stands for none.
            labels = [int(row["Change Point"])] if row["Change Point"] != "0" else []
            yield Labelled(f"{row['Type'].strip()} {row['Dataset']}", values, labels, complete=True)
    for path in sorted((folder / "mozilla_talos").glob("*.json")):
        series = json.loads(path.read_text())
        times = [row[0] for row in series["rows"]]
        labels = [times.index(time) for time in series["expected_change_timestamps"]]
        values = np.array([row[1] for row in series["rows"]])
        yield Labelled(path.stem, values, labels, complete=not labels)


def score(series: Sequence[Labelled], found: Sequence[Sequence[int]]) -> Score:
    """Count what was ``found`` in each of the series."""
    stable = [len(points) for one, points in zip(series, found, strict=True) if not one.labels]
    matches = [matched(points, one.labels) for one, points in zip(series, found, strict=True)]
    beside = [len(points) - match for points, match in zip(found, matches, strict=True)]
    changing = [(one.complete, extra) for one, extra in zip(series, beside, strict=True) if one.labels]
    return Score(
        labels=sum(len(one.labels) for one in series),
        found=sum(matches),
        stable=len(stable),
        hit=sum(count > 0 for count in stable),
        false=sum(stable),
        false_beside=sum(extra for complete, extra in changing if complete),
        unlabelled=sum(extra for complete, extra in changing if not complete),
    )


def matched(found: Sequence[int], labels: Sequence[int], near: int = NEAR) -> int:
    """How many labels have a found point of their own within ``near`` points; the nearest pairs match first."""
    pairs = sorted((abs(point - label), point, label) for point in found for label in labels)
    taken: set[tuple[str, int]] = set()
    for distance, point, label in pairs:
        if distance <= near and not {("found", point), ("label", label)} & taken:
            taken |= {("found", point), ("label", label)}
    return len(taken) // 2
