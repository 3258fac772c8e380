"""Write and read ``culprits.json``, whose schema is ``culprits.schema.json``."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torchperf_ci import json_files
from torchperf_ci.culprits.culprit import (
    Bisection,
    BuildSpread,
    Culprit,
    DependencyChange,
    MachineTime,
    OperatorCost,
    PairMeasurement,
    ProfileChange,
    SeriesEffect,
    SkippedCommit,
    Suspect,
)
from torchperf_ci.errors import CulpritsError
from torchperf_ci.json_files import effect_of

if TYPE_CHECKING:
    from collections.abc import Mapping

VERSION = 1
SIZE_LIMIT = 64 * 2**20
"""Bytes of a file that is read; 1,000 measurements of 100 series take less than 10 MiB."""

QUOTE_LENGTH = 200
"""Characters of a message that quotes what is in a file."""

_FORMAT = json_files.JsonFormat(Path(__file__).with_name("culprits.schema.json"), VERSION, CulpritsError)


def write_culprits(path: Path, location: Bisection) -> None:
    """Write ``location`` to ``path``, whole or not at all, and make the directories that it lacks.

    Raises :class:`CulpritsError` where the directory cannot be made, :class:`OutputDirectoryError` for the file.
    """
    _FORMAT.write(path, culprits_json(location))


def culprits_json(location: Bisection) -> str:
    """The whole file: JSON with one culprit, one suspect, one measurement a line."""
    return json_files.json_text({"version": VERSION, **vars(location)})


def read_culprits(path: Path) -> Bisection:
    """Read and check a file. Raises :class:`CulpritsError`, which says where in the file and what is wrong."""
    members = _FORMAT.read(path, SIZE_LIMIT)
    confirmed = members.get("confirmed", {})
    lists = {
        "culprits": [_culprit(item) for item in members["culprits"]],
        "credible": [Suspect(**_given(Suspect, item)) for item in members.get("credible", [])],
        "skipped": [SkippedCommit(**_given(SkippedCommit, item)) for item in members["skipped"]],
        "moved": _moved(members),
        "notes": members.get("notes", []),
        "readings": [_measurement(item) for item in members.get("readings", [])],
    }
    nested = {
        "seconds": MachineTime(**_given(MachineTime, members.get("seconds", {}))),
        "confirmed": {name: effect_of(effect) for name, effect in confirmed.items()},
        "luck": BuildSpread(**_given(BuildSpread, members["luck"])) if members.get("luck") else None,
    }
    return Bisection(
        **{**_given(Bisection, members), **nested, **{name: tuple(items) for name, items in lists.items()}}
    )


def culprits_schema() -> Mapping[str, Any]:
    """The JSON Schema of the file, as published in ``culprits.schema.json``."""
    return _FORMAT.schema


def profile_change_of(item: Mapping[str, Any]) -> ProfileChange:
    """What moved inside, from an object of a file."""
    lists = {name: tuple(item.get(name, ())) for name in ("graph_breaks", "files", "commands")}
    return ProfileChange(item["probe"], tuple(_operator(one) for one in item["moved"]), **lists)


def check_profile_change(item: Mapping[str, Any]) -> None:
    """Raise :class:`ValueError` where such an object does not fit the schema of the file, and say how."""
    from jsonschema import Draft202012Validator

    part = Draft202012Validator({"$ref": "#/$defs/inside", "$defs": culprits_schema()["$defs"]})
    for error in part.iter_errors(item):
        msg = f"{error.json_path}: {error.message}"[:QUOTE_LENGTH]
        raise ValueError(msg)


def _culprit(item: Mapping[str, Any]) -> Culprit:
    nested = {
        "commit": item["commit"],
        "set": tuple(item["set"]),
        "effect": effect_of(item["effect"]),
        "series": tuple(_change(one) for one in item["series"]),
        "moved": tuple(_moved(item)),
        "inside": profile_change_of(item["inside"]) if item.get("inside") else None,
        "builds": tuple(item["builds"]) if item.get("builds") else None,
    }
    return Culprit(**{**_given(Culprit, item), **nested})


def _change(item: Mapping[str, Any] | str) -> SeriesEffect:
    """A series, of which somebody else's tool may know no more than the name."""
    if isinstance(item, str):
        return SeriesEffect(item)
    effect = item.get("effect")
    return SeriesEffect(
        item["name"], effect_of(effect) if effect else None, tuple(item.get("log_ratios", ()))
    )


def _measurement(item: Mapping[str, Any]) -> PairMeasurement:
    first, second = item.get("draws") or (0, 0)
    return PairMeasurement(**{**_given(PairMeasurement, item), "draws": (first, second)})


def _operator(item: Mapping[str, Any]) -> OperatorCost:
    numbers = (item.get(name) for name in ("old_ms", "new_ms", "old_count", "new_count"))
    return OperatorCost(item["name"], item["kind"], *numbers)


def _moved(item: Mapping[str, Any]) -> list[DependencyChange]:
    return [DependencyChange(**_given(DependencyChange, one)) for one in item.get("moved", [])]


def _given(kind: type, item: Mapping[str, Any]) -> dict[str, Any]:
    """The members of ``item`` that are fields of the dataclass ``kind``, as far as they say something."""
    names = {one.name for one in fields(kind)}
    return {name: value for name, value in item.items() if name in names and value is not None}
