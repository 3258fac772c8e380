"""A chart of an issue as SVG: the part of Mermaid's ``xychart-beta`` that torchperf writes, drawn without Mermaid."""

from __future__ import annotations

import re
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_BEGINNING = re.compile(r"(---\n.*?\n---\n)?xychart-beta\n", re.DOTALL)
_NUMBER = r"-?\d+(?:\.\d+)?"
_TITLE = re.compile(r'^ *title "([^"]*)"$', re.MULTILINE)
_AXIS = rf'^ *{{}}-axis "([^"]*)" ({_NUMBER}) --> ({_NUMBER})$'
_LINE = re.compile(rf"^ *line \[((?:{_NUMBER}(?:, )?)+)\]$", re.MULTILINE)
_WIDTH, _HEIGHT = 760, 280
_LEFT, _RIGHT, _TOP, _BOTTOM = 90, 20, 40, 45
_TICKS = 5


@dataclass(frozen=True)
class _Axis:
    """A stretch of numbers that lies between two places of the picture."""

    name: str
    low: float
    high: float
    first: float
    last: float

    def place(self, value: float) -> float:
        return self.first + (value - self.low) / ((self.high - self.low) or 1.0) * (self.last - self.first)

    @property
    def ticks(self) -> list[float]:
        return [self.low + (self.high - self.low) * tick / (_TICKS - 1) for tick in range(_TICKS)]


def svg(text: str) -> str | None:
    """The picture, as part of a page; None where the chart is of another kind."""
    x, y = _axis("x", text, _LEFT, _WIDTH - _RIGHT), _axis("y", text, _HEIGHT - _BOTTOM, _TOP)
    lines = [[float(number) for number in line.split(", ")] for line in _LINE.findall(text)]
    understood = _BEGINNING.match(text) is not None and 0 < len(lines) == text.count("line [")
    if not (understood and x and y):
        return None
    title = escape(found[1] if (found := _TITLE.search(text)) else "chart")
    values, *levels = lines
    parts = [
        f'<svg class="chart" role="img" viewBox="0 0 {_WIDTH} {_HEIGHT}" aria-label="{title}">',
        f'<text class="title" x="{_LEFT}" y="20">{title}</text>',
        *(_across(value, x, y) for value in y.ticks),
        *(_below(end, x) for end in (x.low, x.high)),
        f'<text x="{_LEFT}" y="{_HEIGHT - 6}">{escape(y.name)}; {escape(x.name)}</text>',
        *(_path(line, x, y, "level") for line in levels),
        _path(values, x, y, "values"),
        *(_dot(number, value, x, y, len(values)) for number, value in enumerate(values)),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _axis(name: str, text: str, first: float, last: float) -> _Axis | None:
    found = re.search(_AXIS.format(name), text, re.MULTILINE)
    return _Axis(found[1], float(found[2]), float(found[3]), first, last) if found else None


def _across(value: float, x: _Axis, y: _Axis) -> str:
    at = f"{y.place(value):.1f}"
    return (
        f'<line class="grid" x1="{x.first}" x2="{x.last}" y1="{at}" y2="{at}"/>'
        f'<text class="tick" x="{x.first - 8}" y="{at}">{value:,.4g}</text>'
    )


def _below(value: float, x: _Axis) -> str:
    return f'<text class="end" x="{x.place(value):.1f}" y="{_HEIGHT - _BOTTOM + 18}">{value:g}</text>'


def _path(values: Sequence[float], x: _Axis, y: _Axis, kind: str) -> str:
    places = [f"{_along(number, x, len(values)):.1f},{y.place(v):.1f}" for number, v in enumerate(values)]
    return f'<polyline class="{kind}" points="{" ".join(places)}"/>'


def _dot(number: int, value: float, x: _Axis, y: _Axis, count: int) -> str:
    place = f'cx="{_along(number, x, count):.1f}" cy="{y.place(value):.1f}"'
    return f'<circle class="value" r="3" {place}><title>{value:g}</title></circle>'


def _along(number: int, x: _Axis, count: int) -> float:
    """Where the first value is at the beginning of the axis, and the last at its end."""
    return x.first + (x.last - x.first) * number / max(count - 1, 1)
