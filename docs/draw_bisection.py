#!/usr/bin/env python3
"""Draw a bisection of one series from its state file, and print its readings as a table.

    python docs/draw_bisection.py docs/img/bisection.state.jsonl docs/img/bisection.svg

Above: every reading at the position of its head. Below: the odds of the suspects after some of them.
"""

from __future__ import annotations

import json
import math
import sys
from dataclasses import dataclass, replace
from html import escape
from itertools import chain, groupby
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from torchperf_ci.bisect.reasoning.evidence import BisectQuestion
from torchperf_ci.bisect.reasoning.series_evidence import SURE, SeriesEvidence
from torchperf_ci.bisect.state_file import StateFile
from torchperf_ci.document import change_text
from torchperf_ci.stats.build_variance import USUAL_TAU

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from torchperf_ci.bisect.reasoning.evidence import BisectFacts, BisectReading
    from torchperf_ci.stats.posterior import Posterior

LEFT, RIGHT, TOP = 56, 620, 40
ABOVE, BETWEEN, ROW = 200, 32, 42
WIDTH = 760
ROWS = 6
LEAST, MOST = -0.05, 0.16
"""Of the axis; what lies beyond is drawn at its edge, with its number."""
STYLE = """
svg { --sheet: #ffffff; --ink: #59636e; --line: #d1d9e0; --locate: #0969da; --verify: #bc4c00; --odds: #8250df }
@media (prefers-color-scheme: dark) {
  svg { --sheet: #0d1117; --ink: #9198a1; --line: #3d444d; --locate: #4493f8; --verify: #f0883e; --odds: #ab7df8 }
}
.sheet { fill: var(--sheet) }
text { font: 11px system-ui, sans-serif; fill: var(--ink) }
.line { stroke: var(--line); fill: none }
.confirm { fill: none; stroke: var(--ink) }
.locate { fill: var(--locate); fill-opacity: .8 }
.verify { fill: none; stroke: var(--verify) }
.unusable { stroke: var(--ink); stroke-width: 1.5 }
.odds { fill: var(--odds) }
"""


@dataclass(frozen=True)
class Bisection:
    """What a state file holds."""

    question: BisectQuestion
    facts: BisectFacts

    def after(self, readings: int) -> Posterior:
        """The odds of all suspects after so many readings, by the first series."""
        facts = replace(self.facts, readings=self.facts.readings[:readings])
        series = next(iter(facts.readings[0].log_ratios))
        evidence = SeriesEvidence(self.question, facts, series, facts.readings[0].probe)
        return evidence.weigh(evidence.whole)

    def ratio(self, reading: BisectReading) -> float:
        """ln(head/base) of the first series."""
        return next(iter(reading.log_ratios.values()))

    def x(self, position: float) -> float:
        return LEFT + (RIGHT - LEFT) * position / self.question.bad


def read(path: Path) -> Bisection:
    """Open a state file, whose plan is its first line; all commits are taken to be as suspect beforehand."""
    with path.open(encoding="utf-8") as file:
        plan = json.loads(file.readline())["plan"]
    count = plan["suspects"]
    luck = 0.0 if plan["builder"] == "worktree" else USUAL_TAU
    question = BisectQuestion(np.full(count, 1 / count), plan["probes"], plan["min_effect"], luck=luck)
    with StateFile.open(path, {key: value for key, value in plan.items() if key != "state"}) as kept:
        return Bisection(question, kept.facts)


def picture(found: Bisection) -> str:
    """The whole SVG."""
    rows = moments(found.facts)
    height = TOP + ABOVE + BETWEEN + ROW * len(rows) + 30
    parts = _scale(), _legend(), _readings(found), _all_odds(found, rows), _positions(found, height - 12)
    body = "\n".join(chain.from_iterable(parts))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">\n'
        f"<title>A bisection: its readings, and the odds of the suspects</title>\n<style>{STYLE}</style>\n"
        f'<rect class="sheet" width="{WIDTH}" height="{height}" rx="6"/>\n{body}\n</svg>\n'
    )


def moments(facts: BisectFacts) -> list[int]:
    """Numbers of readings whose odds are shown: after the confirmation, then evenly while the culprit is located."""
    whole = sum(reading.purpose == "confirm" for reading in facts.readings)
    located = [n for n, one in enumerate(facts.readings, start=1) if one.purpose == "locate"]
    places = np.unique(np.linspace(0, len(located), ROWS).round().astype(int))
    return [[whole, *located][place] for place in places]


def table(found: Bisection) -> Iterator[str]:
    """The rows of a Markdown table: pairs in a row of the same builds, and what the odds are after them."""
    numbered = enumerate(found.facts.readings, start=1)
    for (base, head), group in groupby(numbered, key=lambda item: (item[1].base, item[1].head)):
        numbers, readings = zip(*group, strict=True)
        odds = found.after(numbers[-1])
        cells = (
            "–".join(map(str, sorted({numbers[0], numbers[-1]}))),
            f"{head} against {base}",
            ", ".join(change_text(math.expm1(found.ratio(reading))) for reading in readings),
            len(odds.credible(SURE)),
            likeliest(odds),
        )
        yield f"| {' | '.join(map(str, cells))} |"


def likeliest(odds: Posterior) -> str:
    """The position of the likeliest suspect, and how likely it is."""
    place = int(odds.suspects.argmax())
    share = f"{odds.suspects[place]:.0%}"
    return f"{place + 1}: {'>99%' if share == '100%' else share}"


def _scale() -> Iterator[str]:
    yield _text(LEFT, 20, "what each pair read: slower than its base by", "start")
    for tick in range(math.ceil(LEAST * 20), math.floor(MOST * 20) + 1):
        y = _y(math.log1p(tick / 20))
        yield f'<path class="line" d="M{LEFT} {y:.1f}H{RIGHT}"/>' + _text(LEFT - 8, y + 4, f"{5 * tick}%")


def _legend() -> Iterator[str]:
    x, words_at = RIGHT + 24, RIGHT + 33
    keys = ("confirm", "bad against good"), ("locate", "against good"), ("verify", "against its parent")
    for number, (purpose, words) in enumerate(keys):
        y = TOP + 14 + 18 * number
        yield f'<circle class="{purpose}" cx="{x}" cy="{y}" r="4"/>' + _text(words_at, y + 4, words, "start")
    yield _cross(x, TOP + 68) + _text(words_at, TOP + 72, "does not run", "start")


def _readings(found: Bisection) -> Iterator[str]:
    culprit = int(found.after(len(found.facts.readings)).suspects.argmax()) + 1
    for number, reading in enumerate(found.facts.readings, start=1):
        x, y = found.x(reading.head), _y(found.ratio(reading))
        side, anchor = (7, "start") if reading.head > culprit else (-7, "end")
        yield f'<circle class="{reading.purpose}" cx="{x:.1f}" cy="{y:.1f}" r="4"/>'
        if not LEAST <= found.ratio(reading) <= MOST:
            yield _text(x + 7, y + 4, f"{math.expm1(found.ratio(reading)):+.0%}", "start")
        elif reading.purpose == "locate":
            yield _text(x + side, y + 4, str(number), anchor)
    facts = found.facts
    unusable = facts.unbuilt | facts.failing(facts.readings[0].probe)
    yield from (_cross(found.x(position), _y(0)) for position in sorted(unusable))


def _all_odds(found: Bisection, rows: Sequence[int]) -> Iterator[str]:
    top = TOP + ABOVE + BETWEEN
    yield _text(LEFT, top - 2, "the odds of each suspect, each row to its own scale", "start")
    yield _text(LEFT - 8, top - 2, "pairs")
    yield _text(RIGHT + 12, top - 2, "the likeliest", "start")
    for number, readings in enumerate(rows, start=1):
        odds, floor = found.after(readings), top + ROW * number
        yield f'<path class="line" d="M{LEFT} {floor}H{RIGHT}"/>' + _text(
            RIGHT + 12, floor - 3, likeliest(odds), "start"
        )
        yield _text(LEFT - 8, floor - 3, f"{readings}")
        yield f'<path class="odds" d="{_bars(found, odds, floor)}"/>'


def _bars(found: Bisection, odds: Posterior, floor: float) -> str:
    heights = odds.suspects / odds.suspects.max() * (ROW - 8)
    wide = found.x(0.8) - found.x(0)
    bars = ((found.x(place + 1) - wide / 2, high) for place, high in enumerate(heights) if high >= 0.1)
    return "".join(f"M{x:.1f} {floor}v{-high:.1f}h{wide:.1f}v{high:.1f}z" for x, high in bars)


def _positions(found: Bisection, y: float) -> Iterator[str]:
    for position in range(0, found.question.bad + 1, 12):
        yield _text(found.x(position), y, str(position), "middle")
    yield _text(RIGHT + 12, y, "commits after good", "start")


def _y(log_ratio: float) -> float:
    return TOP + ABOVE * (MOST - min(max(log_ratio, LEAST), MOST)) / (MOST - LEAST)


def _cross(x: float, y: float) -> str:
    return f'<path class="unusable" d="M{x - 4:.1f} {y - 4:.1f}l8 8m0 -8l-8 8"/>'


def _text(x: float, y: float, words: str, anchor: str = "end") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(words)}</text>'


def main() -> None:
    """Write the picture; print the table."""
    found = read(Path(sys.argv[1]))
    Path(sys.argv[2]).write_text(picture(found), encoding="utf-8")
    print(*table(found), sep="\n")


if __name__ == "__main__":
    main()
