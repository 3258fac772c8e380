"""Documents as a page of HTML that needs nothing beside itself: no network, no script."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from math import ceil, floor, isclose, log10

from torchperf_ci import document as doc
from torchperf_ci.actions import printable
from torchperf_ci.markdown import MARKS, WEB

_STYLE = """
:root { color-scheme: light dark; --text: #1f2328; --soft: #59636e; --line: #d1d9e0; --back: #fff; --band: #f6f8fa;
  --blue: #2563eb; --red: #b42318; --link: #0757ba }
@media screen and (prefers-color-scheme: dark) {
  :root { --text: #f0f6fc; --soft: #9198a1; --line: #3d444d; --back: #0d1117; --band: #151b23; --blue: #79b8ff;
    --red: #ff7b72; --link: #6cb0ff }
}
body { margin: 2rem auto; max-width: 68rem; padding: 0 1rem; color: var(--text); background: var(--back);
  font: 16px/1.5 system-ui, sans-serif; overflow-wrap: break-word }
h1 { font-size: 1.6rem; letter-spacing: -0.015em; line-height: 1.3; margin: 0 }
h1 + p { color: var(--soft); margin: 0 0 1.5rem }
h2 { font-size: 1.25rem; line-height: 1.35; margin: 2rem 0 0.75rem }
a { color: var(--link) }
table { border-collapse: collapse; display: block; font-size: 0.875em; margin: 0 0 1rem; max-width: 100%;
  overflow-x: auto; width: max-content }
td, th { border-bottom: 1px solid var(--line); font-variant-numeric: tabular-nums; padding: 0.4rem 1rem 0.4rem 0;
  text-align: left; vertical-align: top }
td { max-width: 14rem }
@media screen { td:has(.unbroken) { max-width: none } }
td:last-child { max-width: none; min-width: 8rem; overflow-wrap: anywhere }
th { color: var(--soft) }
code, pre { background: var(--band); border-radius: 6px; font: 85%/1.45 ui-monospace, monospace }
code { padding: 0.15rem 0.35rem }
pre { overflow-x: auto; padding: 0.8rem 1rem }
pre code { background: none; font-size: 100%; padding: 0 }
blockquote { border-left: 0.25rem solid var(--line); color: var(--soft); margin: 0 0 1rem; padding: 0 1rem }
details { margin: 0 0 1rem }
summary { cursor: pointer }
.unbroken { white-space: nowrap }
.chart { display: block; height: auto; margin: 0 0 1rem; max-width: 760px; width: 100% }
.chart text { fill: var(--soft); font-size: 12px }
.chart .title { fill: var(--text); font-size: 14px; font-weight: 600 }
.chart .tick { dominant-baseline: middle; text-anchor: end }
.chart .end { text-anchor: middle }
.chart .grid { stroke: var(--line) }
.chart polyline { fill: none; opacity: 0.35; stroke: var(--blue) }
.chart .level { opacity: 1; stroke: var(--red); stroke-width: 2.5 }
.chart .value { fill: var(--blue) }
@media (max-width: 40rem) {
  body { margin: 1rem auto }
  h1 { font-size: 1.35rem }
  h2 { font-size: 1.125rem }
  td, th { max-width: none; white-space: nowrap }
  td:last-child { min-width: 20rem; white-space: normal }
  .chart text { font-size: 22px }
  .chart .title { font-size: 20px }
}
@media print {
  @page { margin: 14mm }
  body { font-size: 12px; margin: 0; max-width: none; padding: 0 }
  pre { white-space: pre-wrap }
  .unbroken { white-space: normal }
  table { overflow-x: visible }
  td, th { padding-right: 0.5rem }
  td { max-width: 9rem }
  h2, h3 { break-after: avoid }
  .chart, pre, tr { break-inside: avoid }
  details::details-content { content-visibility: visible; display: block }
}
"""
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
"""No script can run in the page, whatever its texts contain: https://www.w3.org/TR/CSP3/"""

_SCROLLED = 'tabindex="0"'
"""The attribute of what may be wider than the screen, so that a keyboard can scroll it in every browser."""

_WIDTH, _HEIGHT = 760, 280
_LEFT, _RIGHT, _TOP, _BOTTOM = 90, 20, 40, 45
_DIGIT, _GAP = 14, 8
"""The width of a digit of a tick at its largest, on a phone, and the space behind it."""
_TICKS = 5


def page(title: str, documents: Iterable[doc.Document], about: doc.Words = "") -> str:
    """Return a complete HTML page; ``about`` is a line below its title."""
    beneath = f"<p>{_line(about)}</p>\n" if about else ""
    body = "\n".join((f"<h1>{_text(title)}</h1>\n{beneath}", *map(_document, documents)))
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{_text(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n<main>\n"
        f"{body}\n</main>\n</body>\n</html>\n"
    )


def _document(document: doc.Document) -> str:
    head = f"<h2>{_line(document.title)}</h2>\n" if document.title else ""
    return head + _blocks(list(doc.shown_on("page", document.blocks)))


def _blocks(blocks: Sequence[doc.Block]) -> str:
    return "\n".join(map(_block, blocks))


def _block(block: doc.Block) -> str:
    match block:
        case doc.Heading():
            return f"<h3>{_line(block.words)}</h3>"
        case doc.Paragraph():
            line = _line(block.words)
            return f"<p><small>{line}</small></p>" if block.small else f"<p>{line}</p>"
        case doc.Note():
            return f"<blockquote>{_each('p', block.lines)}</blockquote>"
        case doc.Bullets():
            items = block.items[: block.most]
            return f"<ul>{_each('li', items)}</ul>{_more(len(block.items) - len(items))}"
        case doc.Commands():
            lines = (printable(line, keep="\n") for line in block.lines)
            return f"<pre {_SCROLLED}><code>{escape(chr(10).join(lines))}\n</code></pre>"
        case doc.Table():
            return _table(block)
        case doc.Chart():
            return _svg(block)
        case doc.Folded():
            return f"<details><summary>{_line(block.title)}</summary>\n{_blocks(block.blocks)}\n</details>"
        case doc.Replaceable():
            return _blocks(block.blocks)
        case doc.Hidden() | doc.OnlyOn():
            return ""


def _table(table: doc.Table) -> str:
    title = f"<p><strong>{_text(table.title)}</strong></p>\n" if table.title else ""
    shown = table.rows[: table.most]
    head = f"<tr>{_each('th', [column.head for column in table.columns])}</tr>"
    rows = "\n".join(f"<tr>{_each('td', row)}</tr>" for row in shown)
    body = f"<table {_SCROLLED}>\n<thead>{head}</thead>\n<tbody>\n{rows}\n</tbody>\n</table>"
    return f"{title}{body}{_more(len(table.rows) - len(shown))}"


def _each(tag: str, lines: Iterable[doc.Words]) -> str:
    return "".join(f"<{tag}>{_line(line)}</{tag}>" for line in lines)


def _more(hidden: int) -> str:
    return f"\n<p>…and {hidden:,} more, left out here</p>" if hidden > 0 else ""


def _line(words: doc.Words) -> str:
    return "".join(map(_piece, doc.pieces(words))).strip()


def _piece(piece: doc.Piece) -> str:
    match piece:
        case str():
            return _text(piece)
        case doc.Bold():
            return f"<strong>{_text(piece.text)}</strong>"
        case doc.Code():
            return f"<code>{_text(piece.text)}</code>"
        case doc.Link():
            shown = _piece(piece.text)
            return f'<a href="{escape(piece.url)}">{shown}</a>' if WEB.fullmatch(piece.url) else shown
        case doc.Mention():
            return _text(f"@{piece.login}")
        case doc.Highlighted():
            return f"{MARKS[piece.tone]}&nbsp;{_text(piece.text)}"
        case doc.NoWrap():
            return f'<span class="unbroken">{_text(piece.text)}</span>'


def _text(text: str) -> str:
    return escape(printable(re.sub(r"\s+", " ", text)))


@dataclass(frozen=True)
class _Axis:
    """Maps a range of numbers to coordinates of the picture."""

    low: float
    high: float
    first: float
    last: float

    def place(self, value: float) -> float:
        return self.first + (value - self.low) / ((self.high - self.low) or 1.0) * (self.last - self.first)

    @property
    def ticks(self) -> list[tuple[float, str]]:
        """Round numbers within the range with their labels, all with the same number of decimals."""
        rough = ((self.high - self.low) or 1.0) / _TICKS
        power = 10.0 ** floor(log10(rough))
        step = next(power * by for by in (1, 2, 2.5, 5, 10) if power * by >= rough)
        digits = next((digits for digits in range(15) if isclose(round(step, digits), step)), 15)
        numbers = range(ceil(self.low / step), floor(self.high / step) + 1)
        return [(number * step, f"{number * step:,.{digits}f}") for number in numbers]


def _svg(chart: doc.Chart) -> str:
    """Return the chart as an SVG element."""
    title = _text(chart.title)
    x = _Axis(1 - len(chart.values), 0, _LEFT, _WIDTH - _RIGHT)
    y = _Axis(*chart.bounds, _HEIGHT - _BOTTOM, _TOP)
    ticks = y.ticks
    beyond = max(0, _DIGIT * max(len(text) for _, text in ticks) + _GAP - _LEFT)
    what = f"{chart.unit}; {chart.along}, {chart.origin}"
    box = f"{-beyond} 0 {_WIDTH + beyond} {_HEIGHT}"
    parts = [
        f'<svg class="chart" role="img" viewBox="{box}" aria-label="{_text(chart.summary)}">',
        f'<text class="title" x="{_LEFT}" y="20">{title}</text>',
        *(_across(value, text, x, y) for value, text in ticks),
        *(_below(end, x) for end in (x.low, x.high)),
        f'<text x="{_LEFT}" y="{_HEIGHT - 6}">{_text(what)}</text>',
        *([_path(chart.levels, x, y, "level")] if chart.levels else []),
        _path(chart.values, x, y, "values"),
        *(_dot(run, value, x, y) for run, value in _runs(chart.values)),
        "</svg>",
    ]
    return "\n".join(parts) + (f"\n<p><small>{chart.legend}</small></p>" if chart.legend else "")


def _across(value: float, text: str, x: _Axis, y: _Axis) -> str:
    at = f"{y.place(value):.1f}"
    return (
        f'<line class="grid" x1="{x.first}" x2="{x.last}" y1="{at}" y2="{at}"/>'
        f'<text class="tick" x="{x.first - _GAP}" y="{at}">{text}</text>'
    )


def _below(value: float, x: _Axis) -> str:
    return f'<text class="end" x="{x.place(value):.1f}" y="{_HEIGHT - _BOTTOM + 18}">{value:g}</text>'


def _path(values: Sequence[float], x: _Axis, y: _Axis, kind: str) -> str:
    places = [f"{x.place(run):.1f},{y.place(value):.1f}" for run, value in _runs(values)]
    return f'<polyline class="{kind}" points="{" ".join(places)}"/>'


def _dot(run: int, value: float, x: _Axis, y: _Axis) -> str:
    place = f'cx="{x.place(run):.1f}" cy="{y.place(value):.1f}"'
    return f'<circle class="value" r="3" {place}><title>{value:g}</title></circle>'


def _runs(values: Sequence[float]) -> Iterable[tuple[int, float]]:
    """Return the values with their numbers on the x axis, on which the last one is 0."""
    return enumerate(values, 1 - len(values))
