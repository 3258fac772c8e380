#!/usr/bin/env python3
"""Draw what builds of one commit differ by, from what benchmarks/shuffled_links.py wrote.

    python benchmarks/shuffled_links.py offsets 11 --out docs/img/build_luck.json
    python docs/draw_build_luck.py docs/img/build_luck.json docs/img/build_luck.svg

A row a build: each pair of it and the first one, and their median.
"""

from __future__ import annotations

import json
import sys
from math import expm1
from pathlib import Path
from statistics import median, stdev
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

LEFT, RIGHT, TOP, ROW = 96, 700, 44, 20
WIDTH = 760
LEAST, MOST = -0.06, 0.04
STYLE = """
svg { --sheet: #ffffff; --ink: #59636e; --line: #d1d9e0; --pair: #0969da; --middle: #bc4c00 }
@media (prefers-color-scheme: dark) {
  svg { --sheet: #0d1117; --ink: #9198a1; --line: #3d444d; --pair: #4493f8; --middle: #f0883e }
}
.sheet { fill: var(--sheet) }
text { font: 11px system-ui, sans-serif; fill: var(--ink) }
.line { stroke: var(--line) }
.zero { stroke: var(--ink) }
.pair { fill: var(--pair); fill-opacity: .45 }
.middle { stroke: var(--middle); stroke-width: 2.5 }
"""


def draw(rows: Sequence[Sequence[float]]) -> str:
    """The picture. The first row is of the first build and itself; values are logarithms of ratios."""
    height = TOP + ROW * len(rows) + 40
    middles = [median(row) for row in rows[1:]]
    spread = f"{stdev([0.0, *middles]):.1%} (standard deviation)"
    title = f"One commit, linked in {len(rows)} orders: builds differ by {spread}"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{title}">',
        f"<style>{STYLE}</style>",
        f'<rect class="sheet" width="{WIDTH}" height="{height}"/>',
        f'<text x="{LEFT}" y="20">{title}</text>',
        *_axis(TOP + ROW * len(rows)),
        *(part for number, row in enumerate(rows) for part in _row(number, row)),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _axis(bottom: int) -> Iterator[str]:
    for percent in range(round(100 * LEAST), round(100 * MOST) + 1):
        x = _x(percent / 100)
        kind, name = ("line", f"{percent:+d}%") if percent else ("zero", "0")
        yield f'<line class="{kind}" x1="{x:.1f}" x2="{x:.1f}" y1="{TOP - 6}" y2="{bottom}"/>'
        yield f'<text x="{x:.1f}" y="{bottom + 16}" text-anchor="middle">{name}</text>'
    yield f'<text x="{(LEFT + RIGHT) / 2}" y="{bottom + 32}" text-anchor="middle">time against the first build</text>'


def _row(number: int, ratios: Sequence[float]) -> Iterator[str]:
    y = TOP + ROW * number + ROW / 2
    name = f"build {number}" if number else "itself"
    yield f'<text x="{LEFT - 12}" y="{y + 4}" text-anchor="end">{name}</text>'
    for ratio in ratios:
        yield f'<circle class="pair" cx="{_x(expm1(ratio)):.1f}" cy="{y}" r="3.2"/>'
    x = _x(expm1(median(ratios)))
    yield f'<line class="middle" x1="{x:.1f}" x2="{x:.1f}" y1="{y - 8}" y2="{y + 8}"/>'


def _x(change: float) -> float:
    """What lies beyond the axis is drawn at its edge."""
    return LEFT + (RIGHT - LEFT) * (min(max(change, LEAST), MOST) - LEAST) / (MOST - LEAST)


if __name__ == "__main__":
    source, target = map(Path, sys.argv[1:])
    target.write_text(draw(json.loads(source.read_text())))
