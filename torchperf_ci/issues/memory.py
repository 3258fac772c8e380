"""What an issue remembers of earlier nights, stored as JSON in a hidden line of its body.

Everybody who may edit the issue can change it, so only what conforms to ``memory.schema.json`` is accepted.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from functools import partial
from math import inf, log
from pathlib import Path
from typing import Any, Literal

from torchperf_ci.document import Hidden
from torchperf_ci.errors import JsonFileError
from torchperf_ci.json_files import JsonFormat, typed
from torchperf_ci.markdown import fitted
from torchperf_ci.metrics import ANCHORED, LATENCY, kind_of
from torchperf_ci.series.points import Series
from torchperf_ci.stats.effect import Effect

IssueKind = Literal["culprit", "unlocated", "broken", "digest", "nightly"]
"""The subject of an issue.

- ``culprit``: a proven commit
- ``unlocated``: a regression without one
- ``broken``: a benchmark that fails night after night
- ``digest``: findings beyond the nightly limit, in issues from an earlier version
- ``nightly``: a nightly run that did not happen
"""
NAMED_KINDS: tuple[IssueKind, ...] = ("broken", "nightly")
"""The kinds that are matched by fingerprint alone, regardless of series."""


@dataclass(frozen=True)
class IssueRow:
    """One series of an issue. ``old`` and ``new`` are levels in the metric's unit, ``effect`` is new over old.

    ``night`` (ISO date) is the last night on which it was seen regressed. ``proven`` means that the effect was
    measured in pairs of the culprit and its parent; otherwise it comes from history. The levels are those of the
    machine with the digest ``machine`` (see :class:`torchperf_ci.verdicts.verdict.Evidence`).
    """

    series: Series
    old: float | None = None
    new: float | None = None
    effect: Effect | None = None
    night: str = ""
    proven: bool = False
    machine: str = ""

    @property
    def size(self) -> float:
        """The size of the effect, 0 without one."""
        return self.effect.size if self.effect else 0.0

    @property
    def has_levels(self) -> bool:
        """Whether it has an old and a new level that differ."""
        return self.share_left(self.new) is not None

    @property
    def levels_apart(self) -> float | None:
        """|ln(new/old)|, or the difference as a share of the larger level; None unless both are known and differ."""
        if self.old is None or self.new is None or self.old == self.new:
            return None
        if self._has_ratio(self.old, self.new):
            return abs(log(self.new) - log(self.old))
        return abs(self.new - self.old) / max(abs(self.old), abs(self.new))

    def share_left(self, now: float | None) -> float | None:
        """The share of the change that remains at the level ``now``: 0 at the old level, 1 at the regressed one.

        Computed on logarithms, or linearly for amounts, and if a level is 0 or less, as counts may be. None unless all
        levels are known and those of the row differ.
        """
        if self.old is None or self.new is None or now is None:
            return None
        levels = self.old, self.new, now
        old, new, level = map(log, levels) if self._has_ratio(*levels) else levels
        return None if old == new else (level - old) / (new - old)

    def _has_ratio(self, *levels: float) -> bool:
        return min(levels) > 0 and kind_of(self.series.metric) != "amount"


def series_of(rows: Iterable[IssueRow]) -> set[Series]:
    """The series of rows."""
    return {row.series for row in rows}


@dataclass(frozen=True)
class IssueMemory:
    """The subject of an issue and its history.

    ``fingerprints`` are those of all its findings, ``opened`` and ``reported`` the first and the last night (ISO
    dates) it reports on, and ``recovered`` the latest nights in a row on which everything had recovered. ``accepted``
    means that an authorized person has accepted the change. ``stranded`` is the night since which some series cannot be
    compared with their levels; empty if all can. ``suspects`` are the fingerprints of the commits of which one is the
    culprit, until one is proven. ``closed`` is the night on which it was closed as recovered, or on which one that
    somebody had closed was; empty if it was not, or has regressed since.
    """

    kind: IssueKind
    fingerprints: tuple[str, ...]
    rows: tuple[IssueRow, ...]
    opened: str
    reported: str
    recovered: tuple[str, ...] = ()
    accepted: bool = False
    stranded: str = ""
    suspects: tuple[str, ...] = ()
    closed: str = ""

    @property
    def last_night(self) -> str:
        """The last night that measured one of its series, as far as is known."""
        return max((self.reported, *self.recovered))


def _with_comparable_levels(rows: Iterable[IssueRow]) -> tuple[IssueRow, ...]:
    """The rows, of which latencies beside their ratio to an anchor have no levels.

    Their verdicts follow the ratio, because the machine may be another each night, so its speed would pass for a
    recovery or for a further regression.
    """
    rows = tuple(rows)
    anchored = {row.series.case for row in rows if row.series.metric == ANCHORED}
    return tuple(
        replace(row, old=None, new=None, machine="")
        if row.series.metric == LATENCY and row.series.case in anchored
        else row
        for row in rows
    )


def one_row_per_series(rows: Iterable[IssueRow]) -> tuple[IssueRow, ...]:
    """The first row of each series, or the last proven one, with the last night on which it was regressed.

    A proven row of which no verdict told the levels gets those of the other.
    """
    known: dict[Series, IssueRow] = {}
    for row in rows:
        before = known.get(row.series, row)
        kept, other = (row, before) if row.proven else (before, row)
        if other.has_levels and not kept.has_levels:
            kept = replace(kept, old=other.old, new=other.new, machine=other.machine)
        known[row.series] = replace(kept, night=max(row.night, before.night))
    return _with_comparable_levels(known.values())


MEMORY_ROOM = 30_000
"""Maximum bytes of the memory, of an issue's 65,536: some 200 rows. Rows with the largest effects are kept."""
MEMORY_MARKER = re.compile(r"^((?! {4}|\t|>).*?)<!-- torchperf:memory (\{.*?\}) -->", re.MULTILINE)
"""The text that people wrote on the same line, and the memory. Neither a quotation nor code from outside has any."""


def hidden_memory(memory: IssueMemory) -> Hidden:
    """The memory as a hidden part of the issue's document."""
    rows = sorted(memory.rows, key=_size_kept, reverse=True)
    ranked = replace(memory, rows=tuple(rows))
    return Hidden(fitted(partial(_hidden_text, ranked), MEMORY_ROOM, len(rows)) or _hidden_text(ranked, 0))


def memory_line(memory: IssueMemory) -> str:
    """The invisible line of Markdown that contains the memory."""
    return f"<!-- {hidden_memory(memory).text} -->"


def parse_memory(body: str) -> IssueMemory | None:
    """The memory in an issue's body, the first if people have copied it; None if it is missing or invalid."""
    marker = MEMORY_MARKER.search(body)
    if marker is None:
        return None
    try:
        members = _FORMAT.parse("memory", marker[2].encode())
        rows = [_row_from_json(item, members["names"]) for item in members["rows"]]
        return replace(typed({**members, "rows": []}, IssueMemory), rows=_with_comparable_levels(rows))
    except (JsonFileError, ValueError, IndexError, TypeError):  # an index is wrong if a name is missing
        return None


def without_memory(body: str) -> str:
    """The body of an issue without what is hidden in it."""
    return MEMORY_MARKER.sub(r"\1", body)


def storable(memory: IssueMemory) -> IssueMemory:
    """The memory as it will be read back. Otherwise, parts that do not fit would count as new every night."""
    return parse_memory(memory_line(memory)) or memory


_ESCAPED = {"--": r"\u002d\u002d", "<": r"\u003c", ">": r"\u003e", "@": r"\u0040", "#": r"\u0023"}
"""Characters that would end the comment, notify a person, or refer to an issue."""


def _hidden_text(memory: IssueMemory, rows: int) -> str:
    kept = replace(memory, rows=memory.rows[:rows])
    text = json.dumps(_memory_to_json(kept), separators=(",", ":"), allow_nan=False)
    for literal, escaped in _ESCAPED.items():
        text = text.replace(literal, escaped)
    return f"torchperf:memory {text}"


MEMORY_VERSION = 1
_FORMAT = JsonFormat(Path(__file__).with_name("memory.schema.json"), MEMORY_VERSION)


def _memory_to_json(memory: IssueMemory) -> dict[str, object]:
    """The memory as JSON. Each name is stored once and rows refer to names by position."""
    names = list(dict.fromkeys(name for row in memory.rows for name in astuple(row.series)))
    positions = {name: position for position, name in enumerate(names)}
    return {
        "version": MEMORY_VERSION,
        **{name: value for name, value in vars(memory).items() if name != "rows" and value != ""},
        "names": names,
        "rows": [_row_to_json(row, positions) for row in memory.rows],
    }


def _row_to_json(row: IssueRow, positions: Mapping[str, int]) -> dict[str, object]:
    """The row, with numbers of six digits, more than any measurement has; those beyond the schema's limits are null."""
    return {
        "series": [positions[name] for name in astuple(row.series)],
        "levels": [_digits(row.old), _digits(row.new)],
        "effect": _effect_to_json(row.effect),
        "night": row.night,
        "proven": row.proven,
        **({"machine": row.machine} if row.machine else {}),
    }


_LARGEST = 1e300
_MAX_PAIRS = 1_000_000
"""The largest numbers that the schema allows."""


def _size_kept(row: IssueRow) -> float:
    """The size of the effect as it will be read back, so that the order stays the same."""
    ratio = _digits(row.effect.ratio) if row.effect else None
    return 0.0 if ratio is None else Effect(ratio).size


def _effect_to_json(effect: Effect | None) -> list[float | None] | None:
    if effect is None or (ratio := _digits(effect.ratio)) is None:
        return None
    return [ratio, _digits(effect.low) or 0.0, _digits(effect.high), min(effect.pairs, _MAX_PAIRS)]


def _digits(value: float | None) -> float | None:
    rounded = float(f"{value:.6g}") if value is not None else inf
    return rounded if abs(rounded) <= _LARGEST else None


def _row_from_json(item: Any, names: Sequence[str]) -> IssueRow:
    series = Series(*(names[position] for position in item["series"]))
    old, new = item["levels"]
    ratio, low, high, pairs = item["effect"] or [None] * 4
    effect = Effect(ratio, low or 0.0, inf if high is None else high, pairs) if ratio is not None else None
    return IssueRow(series, old, new, effect, item["night"], item["proven"], item.get("machine", ""))
