"""What an issue remembers of earlier nights, as JSON in a hidden line of its text.

What is read back was open to everybody who may edit the issue: only what ``memory.schema.json`` allows is taken for
ours.
"""

from __future__ import annotations

import json
import re
from dataclasses import astuple, dataclass, replace
from functools import lru_cache, partial
from math import inf, log
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from torchperf_ci.document import Hidden
from torchperf_ci.markdown import fitted
from torchperf_ci.series.points import Series
from torchperf_ci.stats.effect import Effect

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from jsonschema.protocols import Validator


IssueKind = Literal["culprit", "unlocated", "broken", "digest", "nightly"]
"""A proven commit; a regression without one; a benchmark that fails night after night; what found no room, in issues
that an earlier version has opened; a nightly that did not run."""
NAMED_KINDS: tuple[IssueKind, ...] = ("broken", "nightly")
"""Those that an issue is found by the fingerprint of alone, whatever series it has."""


@dataclass(frozen=True)
class IssueRow:
    """One series of an issue. ``old`` and ``new`` are levels in the metric's unit, ``effect`` is new over old.

    ``night`` (ISO date) is the last one on which it was seen so. ``proven`` says that the effect is that of pairs of
    the culprit and its parent; else it is what history shows.
    """

    series: Series
    old: float | None = None
    new: float | None = None
    effect: Effect | None = None
    night: str = ""
    proven: bool = False

    @property
    def size(self) -> float:
        """How much changed: the absolute logarithm of the ratio; 0 where there is none."""
        ratio = self.effect.ratio if self.effect else 1.0
        return abs(log(ratio)) if 0 < ratio < inf else inf


@dataclass(frozen=True)
class IssueMemory:
    """What it is about, and since when.

    ``fingerprints`` are those of all findings that it was about, ``opened`` and ``reported`` the first and the last
    night (ISO dates) that it tells of, ``recovered`` the nights in a row on which everything was back, ``accepted``
    that somebody who may has said that it is meant to be so.
    """

    kind: IssueKind
    fingerprints: tuple[str, ...]
    rows: tuple[IssueRow, ...]
    opened: str
    reported: str
    recovered: tuple[str, ...] = ()
    accepted: bool = False


MEMORY_ROOM = 30_000
"""Bytes that it may take of an issue's 65,536: some 200 rows. Of more, those with the largest effects are kept."""
MEMORY_MARKER = re.compile(r"^<!-- torchperf:memory (\{[^\r\n]*?\}) -->(?=\r?$)", re.MULTILINE)


def hidden_memory(memory: IssueMemory) -> Hidden:
    """The memory as a part of an issue's document."""
    rows = sorted(map(_rounded_row, memory.rows), key=attrgetter("size"), reverse=True)
    ranked = replace(memory, rows=tuple(rows))
    return Hidden(fitted(partial(_hidden_text, ranked), MEMORY_ROOM, len(rows)) or _hidden_text(ranked, 0))


def embed(memory: IssueMemory) -> str:
    """The line of Markdown that holds the memory, and shows nothing."""
    return f"<!-- {hidden_memory(memory).text} -->"


def recall(body: str) -> IssueMemory | None:
    """The memory in an issue's body; None where there is not exactly one, or it is none of ours."""
    found = MEMORY_MARKER.findall(body)
    if len(found) != 1:
        return None
    try:
        members = json.loads(found[0], parse_constant=_refuse_constant)
        json.dumps(members, ensure_ascii=False).encode()  # half a surrogate pair is no text
        return _memory_from_json(members)
    except (ValueError, IndexError, RecursionError):
        return None


_ESCAPED = {"--": r"\u002d\u002d", "<": r"\u003c", ">": r"\u003e", "@": r"\u0040", "#": r"\u0023"}
"""What would end the comment, notify somebody, or refer to an issue."""


def _hidden_text(memory: IssueMemory, rows: int) -> str:
    kept = replace(memory, rows=memory.rows[:rows])
    text = json.dumps(_memory_to_json(kept), separators=(",", ":"), allow_nan=False)
    for literal, escaped in _ESCAPED.items():
        text = text.replace(literal, escaped)
    return f"torchperf:memory {text}"


def _refuse_constant(constant: str) -> float:
    raise ValueError(constant)


MEMORY_VERSION = 1


def _memory_to_json(memory: IssueMemory) -> dict[str, object]:
    """The memory, with each name once: its rows, which must be :func:`_rounded_row`, tell of them by position."""
    names = list(dict.fromkeys(name for row in memory.rows for name in astuple(row.series)))
    positions = {name: position for position, name in enumerate(names)}
    return {
        "version": MEMORY_VERSION,
        **{name: value for name, value in vars(memory).items() if name != "rows"},
        "names": names,
        "rows": [_row_to_json(row, positions) for row in memory.rows],
    }


def _row_to_json(row: IssueRow, positions: Mapping[str, int]) -> dict[str, object]:
    effect = row.effect
    return {
        "series": [positions[name] for name in astuple(row.series)],
        "levels": [row.old, row.new],
        "effect": [effect.ratio, effect.low, _none_for_infinity(effect.high), effect.pairs]
        if effect
        else None,
        "night": row.night,
        "proven": row.proven,
    }


def _none_for_infinity(end: float) -> float | None:
    """JSON has no infinity."""
    return end if end < inf else None


_LARGEST = 1e300
_MOST_PAIRS = 1_000_000
"""The largest numbers that the schema allows."""


def _rounded_row(row: IssueRow) -> IssueRow:
    """The row with six digits, which are more than anybody measures, and without numbers that nobody measures."""
    return replace(row, old=_digits(row.old), new=_digits(row.new), effect=_rounded_effect(row.effect))


def _rounded_effect(effect: Effect | None) -> Effect | None:
    ratio = _digits(effect.ratio) if effect else None
    if effect is None or ratio is None:
        return None
    low, high = _digits(effect.low), _digits(effect.high)
    return Effect(ratio, low or 0.0, high or inf, min(effect.pairs, _MOST_PAIRS))


def _digits(value: float | None) -> float | None:
    rounded = float(f"{value:.6g}") if value is not None else inf
    return rounded if abs(rounded) <= _LARGEST else None


def _memory_from_json(members: Any) -> IssueMemory | None:
    """The memory that was stored so; None where it is none. Raises :class:`IndexError` for a name that is not there."""
    if not _validator().is_valid(members):
        return None
    return IssueMemory(
        kind=members["kind"],
        fingerprints=tuple(members["fingerprints"]),
        rows=tuple(_row_from_json(item, members["names"]) for item in members["rows"]),
        opened=members["opened"],
        reported=members["reported"],
        recovered=tuple(members["recovered"]),
        accepted=members["accepted"],
    )


def _row_from_json(item: Any, names: Sequence[str]) -> IssueRow:
    series = Series(*(names[position] for position in item["series"]))
    old, new = item["levels"]
    return IssueRow(series, old, new, _effect_from_json(item["effect"]), item["night"], item["proven"])


def _effect_from_json(item: Sequence[Any] | None) -> Effect | None:
    if item is None:
        return None
    ratio, low, high, pairs = item
    return Effect(ratio, low or 0.0, inf if high is None else high, pairs)


@lru_cache(maxsize=1)
def _validator() -> Validator:
    from jsonschema import Draft202012Validator

    schema = Path(__file__).with_name("memory.schema.json")
    return Draft202012Validator(json.loads(schema.read_text(encoding="utf-8")))
