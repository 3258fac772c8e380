"""One verdict as the cells of a table: plain text, not yet made safe for Markdown or a terminal."""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING

from torchperf_ci.document import short
from torchperf_ci.metrics import name_and_unit
from torchperf_ci.verdicts.groups import group_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from torchperf_ci.series.series import Series
    from torchperf_ci.stats.effect import Effect
    from torchperf_ci.verdicts.verdict import Verdict

COLUMNS = ("verdict", "case", "metric", "old → new", "change (95%)", "detectable", "why")
NUMBERS = range(3, 6)
"""The columns that hold numbers."""

_CASE = ("model", "mode", "dtype", "backend", "device", "arch", "benchmark", "repo")
_NAME_LENGTH = 120
_WHY_LENGTH = 300


def shared(verdicts: Sequence[Verdict]) -> dict[str, str]:
    """What all series have in common beside the model, by field: said once, it need not stand in each row."""
    found = {name: {getattr(verdict.series, name) for verdict in verdicts} for name in _CASE[1:]}
    return {name: value for name, values in found.items() if len(values) == 1 for value in values if value}


def row(verdict: Verdict, said: Mapping[str, str]) -> tuple[str, ...]:
    """The cells under :data:`COLUMNS`; ``said`` are the fields of the series that are told elsewhere."""
    group = group_of(verdict)
    return (
        "candidate" if group == "candidate" else verdict.verdict,
        case(verdict.series, said),
        short(verdict.series.metric, _NAME_LENGTH),
        levels(verdict),
        difference(verdict),
        f"±{verdict.detectable:.1%}" if verdict.detectable is not None else "",
        short(verdict.why, _WHY_LENGTH),
    )


def case(series: Series, said: Iterable[str] = ()) -> str:
    """What tells the series from the others, the metric apart."""
    parts = (getattr(series, name) for name in _CASE if name not in said)
    return short(" ".join(part for part in parts if part), _NAME_LENGTH)


def levels(verdict: Verdict) -> str:
    """``1.21 → 1.25 ms``; one side is empty where it has no number.

    The new level is the old one times the change, where there is one: each side's own median has what the machine did
    meanwhile in it, which pairs do not have, and two answers side by side are none.
    """
    if verdict.old is None and verdict.new is None:
        return ""
    new = (
        verdict.old * verdict.effect.ratio if verdict.old and verdict.new and verdict.effect else verdict.new
    )
    _, unit = name_and_unit(verdict.series.metric)
    return f"{_number(verdict.old)} → {_number(new)}{short(f' {unit}', _NAME_LENGTH) if unit else ''}"


def difference(verdict: Verdict) -> str:
    """The effect where there is one, else the plain difference of what is counted; nothing for pass and fail."""
    if verdict.effect:
        return change(verdict.effect)
    if verdict.old is None or verdict.new is None or verdict.verdict in ("broken", "fixed"):
        return ""
    moved = verdict.new - verdict.old
    return f"{'−' if moved < 0 else '+'}{_number(abs(moved))}" if moved else ""


def change(effect: Effect) -> str:
    """``+3.1% (+2.4…+3.9)``: the ratio new/old less 1, and its interval."""
    if effect.low <= 0 and effect.high == float("inf"):
        return f"{_percent(effect.ratio)}% (no interval)"
    high = "∞" if effect.high == float("inf") else _percent(effect.high)
    return f"{_percent(effect.ratio)}% ({_percent(effect.low)}…{high})"


def _number(value: float | None) -> str:
    if value is None or not isfinite(value):
        return "–"
    if abs(value) >= 1e15 or 0 < abs(value) < 1e-4:
        return f"{value:.3e}"
    return f"{value:,.0f}" if abs(value) >= 1000 or value == int(value) else f"{value:.4g}"


def _percent(ratio: float) -> str:
    percent = (ratio - 1) * 100
    digits = f"{abs(percent):,.1f}" if abs(percent) < 1e15 else f"{abs(percent):.1e}"
    return f"{'−' if percent < 0 and float(digits.replace(',', '')) else '+'}{digits}"
