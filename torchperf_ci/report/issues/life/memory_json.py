"""A memory as JSON, as ``memory.schema.json`` says."""

from __future__ import annotations

import json
from dataclasses import astuple, replace
from functools import lru_cache
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torchperf_ci.report.issues.causes.finding import Row
from torchperf_ci.report.issues.life.memory import Memory
from torchperf_ci.series.series import Series
from torchperf_ci.stats.effect import Effect

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from jsonschema.protocols import Validator

VERSION = 1
_LARGEST = 1e300
_MOST_PAIRS = 1_000_000
"""The largest numbers that the schema allows."""


def members_of(memory: Memory) -> dict[str, Any]:
    """The memory, with each name once: its rows, which must be :func:`rounded`, tell of them by position."""
    names = list(dict.fromkeys(name for row in memory.rows for name in astuple(row.series)))
    positions = {name: position for position, name in enumerate(names)}
    return {
        "version": VERSION,
        **{name: value for name, value in vars(memory).items() if name != "rows"},
        "names": names,
        "rows": [_member(row, positions) for row in memory.rows],
    }


def rounded(row: Row) -> Row:
    """The row with six digits, which are more than anybody measures, and without numbers that nobody measures."""
    return replace(row, old=_digits(row.old), new=_digits(row.new), effect=_rounded_effect(row.effect))


def memory_of(members: Any) -> Memory | None:
    """The memory that was stored so; None where it is none. Raises :class:`IndexError` for a name that is not there."""
    if not _validator().is_valid(members):
        return None
    return Memory(
        kind=members["kind"],
        fingerprints=tuple(members["fingerprints"]),
        rows=tuple(_row(item, members["names"]) for item in members["rows"]),
        opened=members["opened"],
        reported=members["reported"],
        recovered=tuple(members["recovered"]),
        accepted=members["accepted"],
    )


def _member(row: Row, positions: Mapping[str, int]) -> dict[str, Any]:
    effect = row.effect
    return {
        "series": [positions[name] for name in astuple(row.series)],
        "levels": [row.old, row.new],
        "effect": [effect.ratio, effect.low, _closed(effect.high), effect.pairs] if effect else None,
        "night": row.night,
        "proven": row.proven,
    }


def _rounded_effect(effect: Effect | None) -> Effect | None:
    ratio = _digits(effect.ratio) if effect else None
    if effect is None or ratio is None:
        return None
    low, high = _digits(effect.low), _digits(effect.high)
    return Effect(ratio, low or 0.0, high or inf, min(effect.pairs, _MOST_PAIRS))


def _digits(value: float | None) -> float | None:
    rounded = float(f"{value:.6g}") if value is not None else inf
    return rounded if abs(rounded) <= _LARGEST else None


def _closed(end: float) -> float | None:
    """JSON has no infinity."""
    return end if end < inf else None


def _row(item: dict[str, Any], names: Sequence[str]) -> Row:
    series = Series(*(names[position] for position in item["series"]))
    old, new = item["levels"]
    return Row(series, old, new, _effect(item["effect"]), item["night"], item["proven"])


def _effect(item: Sequence[Any] | None) -> Effect | None:
    if item is None:
        return None
    ratio, low, high, pairs = item
    return Effect(ratio, low or 0.0, inf if high is None else high, pairs)


@lru_cache(maxsize=1)
def _validator() -> Validator:
    from jsonschema import Draft202012Validator

    schema = Path(__file__).with_name("memory.schema.json")
    return Draft202012Validator(json.loads(schema.read_text(encoding="utf-8")))
