"""Read CodSpeed's walltime results: ``.codspeed/results_*.json`` of pytest-codspeed and CodSpeed's other plugins.

They contain statistics of the rounds in nanoseconds, but not the rounds, so the median is the only value.
"""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING

from torchperf_ci.imports.imported_case import (
    TIME,
    ImportedCase,
    ImportedFile,
    UnfitResultError,
    cases_of,
    facts,
    items,
    members,
    name_of,
    number,
)
from torchperf_ci.records.record import Metric

if TYPE_CHECKING:
    from collections.abc import Mapping

TOOL = "codspeed"
_OF_ROUNDS = re.compile(r"[0-2]\.|3\.[01]\.")
"""Versions of pytest-codspeed that wrote the time of a round, which may have several iterations."""


def recognises(value: object) -> bool:
    """Whether a JSON document is a file of CodSpeed."""
    return isinstance(value, dict) and {"creator", "instrument", "benchmarks"} <= value.keys()


def read(value: Mapping[str, object]) -> ImportedFile:
    """Return the cases of a file. Raises :class:`UnfitResultError`."""
    kind = members(value["instrument"], "an instrument", "$.instrument").get("type")
    if kind != "walltime":
        reason = "holds no times: run CodSpeed in walltime mode (--codspeed-mode walltime)"
        raise UnfitResultError(reason, "$.instrument.type")
    creator = members(value["creator"], "a creator", "$.creator")
    if creator.get("name") == "pytest-codspeed" and _OF_ROUNDS.match(str(creator.get("version"))):
        reason = "pytest-codspeed before 3.2 writes the time of a round, not of an iteration; update it"
        raise UnfitResultError(reason, "$.creator.version")
    listed = items(value["benchmarks"], "a list of benchmarks", "$.benchmarks")
    about = facts({"creator": creator.get("name")})
    return ImportedFile(TOOL, cases_of(listed, "$.benchmarks", partial(_case, about)))


def _case(about: Mapping[str, object], entry: object, path: str) -> ImportedCase:
    result = members(entry, "a benchmark", path)
    stats = members(result.get("stats"), "the statistics of a benchmark", f"{path}.stats")
    median = number(stats.get("median_ns"), f"{path}.stats.median_ns") / 1e6
    kept = ("rounds", "iter_per_round", "min_ns", "max_ns", "mean_ns", "stdev_ns", "q1_ns", "q3_ns")
    spread = facts({name: stats.get(name) for name in kept})
    name = name_of(result.get("uri") or result.get("name"), f"{path}.uri")
    return ImportedCase(path, entry, name, [Metric(TIME, [median], spread)], about=about)
