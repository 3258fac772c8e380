#!/usr/bin/env python3
"""Chart what `torchperf check` says of runs on a busy machine: each time by itself, and its ratio to the anchor's.

    python docs/draw_history.py docs/img/runs docs/img/runs.svg

The charts are those of the page that `torchperf report` writes. Dark ones get the name ``runs-dark.svg``.
"""

from __future__ import annotations

import re
import sys
import tempfile
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from torchperf_ci import cli
from torchperf_ci.document import Document
from torchperf_ci.metrics import ANCHORED, LATENCY
from torchperf_ci.page import page
from torchperf_ci.verdicts.verdict import read_verdicts
from torchperf_ci.verdicts.verdict_document import clearest_chart

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torchperf_ci.document import Chart

RED = 1
THRESHOLD = 0.1
HEIGHT, FOOT = 280, 26
NAMES = ("text", "soft", "line", "back", "blue", "red")
LIGHT = dict(zip(NAMES, ("#1f2328", "#59636e", "#d1d9e0", "#ffffff", "#0969da", "#cf222e"), strict=True))
DARK = dict(zip(NAMES, ("#f0f6fc", "#9198a1", "#3d444d", "#0d1117", "#4493f8", "#f85149"), strict=True))
STYLE = """
text {{ fill: {soft}; font: 12px system-ui, sans-serif }}
.title {{ fill: {text}; font-size: 14px; font-weight: 600 }}
.tick {{ dominant-baseline: middle; text-anchor: end }}
.end {{ text-anchor: middle }}
.grid {{ stroke: {line} }}
polyline {{ fill: none; stroke: {blue}; stroke-width: 1.5 }}
.level {{ stroke: {red}; stroke-width: 2 }}
.value {{ fill: {blue} }}
.sheet {{ fill: {back} }}
"""


def charts(runs: Path) -> tuple[Chart, Chart]:
    """Of the times, and of the ratios with the levels that are judged."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "verdicts.json"
        given = ["check", str(runs / "new"), "--against", str(runs / "past"), "--out", str(file)]
        assert cli.main(given) == RED
        verdicts = read_verdicts(file).verdicts
    times, ratios = (
        clearest_chart([verdict for verdict in verdicts if verdict.series.metric == metric])
        for metric in (LATENCY, ANCHORED)
    )
    assert times
    assert ratios
    return (
        replace(times, title="By itself: the latency of each run", levels=()),
        replace(ratios, title="In turns with an older build: the ratio, and the step that is proven"),
    )


def alarms(chart: Chart, until: int) -> int:
    """How many of the first runs are slower than the one before by more than a threshold of two numbers."""
    values = chart.values[:until]
    return sum(new > old * (1 + THRESHOLD) for old, new in pairwise(values))


def picture(drawn: tuple[Chart, Chart], theme: Mapping[str, str]) -> str:
    """Both, one above the other, on the colours of a theme."""
    times, ratios = drawn
    unchanged = sum(level == ratios.levels[0] for level in ratios.levels)
    told = (
        f"The same {len(times.values)} runs. A threshold of {THRESHOLD:.0%} on two of the upper ones gives "
        f"{alarms(times, unchanged)} false alarms before the step."
    )
    shown = page("", [Document("", [chart]) for chart in drawn])
    above, below = re.findall(r'(?s)<svg class="chart".*?</svg>', shown)
    height = 2 * HEIGHT + FOOT
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 760 {height}" role="img" aria-label="{told}">',
            f"<style>{STYLE.format(**theme)}</style>",
            f'<rect class="sheet" width="760" height="{height}"/>',
            above.replace("<svg ", f'<svg width="760" height="{HEIGHT}" ', 1),
            below.replace("<svg ", f'<svg y="{HEIGHT}" width="760" height="{HEIGHT}" ', 1),
            f'<text class="told" x="90" y="{height - 8}">{told}</text>',
            "</svg>",
            "",
        ]
    )


if __name__ == "__main__":
    source, target = map(Path, sys.argv[1:])
    both = charts(source)
    target.write_text(picture(both, LIGHT))
    target.with_stem(f"{target.stem}-dark").write_text(picture(both, DARK))
