"""GitHub's Markdown as a page that needs nothing beside itself: no network, no script."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

from markdown_it import MarkdownIt

from torchperf_ci.report.drawing import svg

if TYPE_CHECKING:
    from collections.abc import Sequence

    from markdown_it.renderer import RendererHTML
    from markdown_it.token import Token

_STYLE = """
:root { color-scheme: light dark; --text: #1f2328; --soft: #59636e; --line: #d1d9e0; --back: #fff; --band: #f6f8fa;
  --blue: #0969da; --red: #cf222e }
@media (prefers-color-scheme: dark) {
  :root { --text: #f0f6fc; --soft: #9198a1; --line: #3d444d; --back: #0d1117; --band: #151b23; --blue: #4493f8;
    --red: #f85149 }
}
body { margin: 2rem auto; max-width: 62rem; padding: 0 1rem; color: var(--text); background: var(--back);
  font: 16px/1.5 system-ui, sans-serif; overflow-wrap: break-word }
a { color: var(--blue) }
table { border-collapse: collapse; display: block; margin: 0 0 1rem; max-width: 100%; overflow-x: auto;
  width: max-content }
td, th { border: 1px solid var(--line); font-variant-numeric: tabular-nums; padding: 0.3rem 0.7rem; text-align: left }
tr:nth-child(even) td { background: var(--band) }
code, pre { background: var(--band); border-radius: 6px; font: 85%/1.45 ui-monospace, monospace }
code { padding: 0.15rem 0.35rem }
pre { overflow-x: auto; padding: 0.8rem 1rem }
pre code { background: none; font-size: 100%; padding: 0 }
blockquote { border-left: 0.25rem solid var(--line); color: var(--soft); margin: 0 0 1rem; padding: 0 1rem }
details { margin: 0 0 1rem }
summary { cursor: pointer }
.chart { display: block; height: auto; margin: 0 0 1rem; max-width: 760px; width: 100% }
.chart text { fill: var(--soft); font-size: 12px }
.chart .title { fill: var(--text); font-size: 14px; font-weight: 600 }
.chart .tick { dominant-baseline: middle; text-anchor: end }
.chart .end { text-anchor: middle }
.chart .grid { stroke: var(--line) }
.chart polyline { fill: none; stroke: var(--blue); stroke-width: 1.5 }
.chart .level { stroke: var(--red); stroke-width: 2 }
.chart .value { fill: var(--blue) }
"""
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src https: data:"
"""Nothing runs in the page, whatever the Markdown holds: https://www.w3.org/TR/CSP3/"""


def page(title: str, markdown_text: str) -> str:
    """A whole HTML document. Mermaid charts of torchperf's own become pictures, others stay text."""
    parser = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
    parser.add_render_rule("fence", _fence)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n"
        f"{parser.render(markdown_text)}</body>\n</html>\n"
    )


def _fence(renderer: RendererHTML, tokens: Sequence[Token], index: int, options: Any, env: Any) -> str:
    token = tokens[index]
    drawn = svg(token.content) if token.info.strip() == "mermaid" else None
    return drawn or renderer.fence(tokens, index, options, env)
