"""Files written by benchmark tools, and the records that they become."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from torchperf_ci.imports.other_tools import parse_results

if TYPE_CHECKING:
    from torchperf_ci.records.reading import RecordsReading

MADE = Path(__file__).parents[1] / "imports" / "made_by_tools"


def read_made(name: str, given: str = "") -> RecordsReading:
    path = MADE / name
    return parse_results(path.read_bytes(), path.name, given, path.parent)


def values_of(reading: RecordsReading) -> dict[tuple[str, str], list[float]]:
    """The numbers by model and metric."""
    return {
        (found.record["model"]["name"], found.record["metric"]["name"]): found.record["metric"][
            "benchmark_values"
        ]
        for found in reading.records
    }


def record_of(reading: RecordsReading, model: str, metric: str = "time(ms)") -> dict[str, Any]:
    (record,) = (
        found.record
        for found in reading.records
        if (found.record["model"]["name"], found.record["metric"]["name"]) == (model, metric)
    )
    return record
