#!/usr/bin/env python3
"""Picture an issue or a comment as GitHub shows it, from files of verdicts and culprits: on light, and on dark.

    python docs/draw_report.py issue docs/img/issue.png --culprits docs/img/culprits.json
    python docs/draw_report.py comment docs/img/comment.png --verdicts docs/img/verdicts.json
    python docs/draw_report.py issue docs/img/issue-top.png --culprits docs/img/culprits.json --height 375

The dark one is ``issue-dark.png``, beside it. It takes Debian's chromium, and for a chart Mermaid (`make .cache/npm`);
nothing is asked of any network.
"""

from __future__ import annotations

import argparse
import re
import shutil
import tempfile
from html import escape
from pathlib import Path

from markdown_it import MarkdownIt
from playwright.sync_api import sync_playwright

from torchperf_ci import cli

MERMAID = Path(__file__).parents[1] / ".cache/npm/node_modules/@mermaid-js/tiny/dist/mermaid.tiny.js"
WIDTH = 1012
STYLE = """
:root { --text: #1f2328; --soft: #59636e; --line: #d1d9e0; --back: #fff; --band: #f6f8fa; --blue: #0969da;
  --green: #1f883d; --bad: #cf222e; --good: #1a7f37; --warning: #9a6700 }
@media (prefers-color-scheme: dark) {
  :root { --text: #f0f6fc; --soft: #9198a1; --line: #3d444d; --back: #0d1117; --band: #151b23; --blue: #4493f8;
    --green: #238636; --bad: #f85149; --good: #3fb950; --warning: #d29922 }
}
* { box-sizing: border-box }
body { background: var(--back); color: var(--text); margin: 0; padding: 24px;
  font: 14px/1.5 -apple-system, "Segoe UI", "Noto Sans", Helvetica, Arial, sans-serif }
h1.title { font-size: 26px; font-weight: 400; line-height: 1.25; margin: 0 0 8px }
h1.title span, .head { color: var(--soft) }
.state { background: var(--green); border-radius: 2em; color: #fff; display: inline-block; font-weight: 500;
  margin-bottom: 16px; padding: 5px 12px }
.label { border: 1px solid var(--line); border-radius: 2em; color: var(--soft); font-size: 12px; font-weight: 500;
  margin-left: 8px; padding: 2px 10px }
.box { border: 1px solid var(--line); border-radius: 6px }
.head { background: var(--band); border-bottom: 1px solid var(--line); border-radius: 6px 6px 0 0; padding: 8px 16px }
.head b { color: var(--text) }
.body { overflow-wrap: break-word; padding: 16px }
.body > :first-child { margin-top: 0 }
h3 { font-size: 1.25em; font-weight: 600; line-height: 1.25; margin: 24px 0 16px }
p, ul, pre, blockquote, details { margin: 0 0 16px }
a { color: var(--blue); text-decoration: none }
table { border-collapse: collapse; display: block; margin: 0 0 16px; max-width: 100%; overflow: auto;
  width: max-content }
td, th { border: 1px solid var(--line); padding: 6px 13px }
tr:nth-child(even) td { background: var(--band) }
blockquote { border-left: .25em solid var(--line); color: var(--soft); padding: 0 1em }
pre.mermaid { background: none !important; padding: 0 !important }
pre { background: var(--band); border-radius: 6px; font: 85%/1.45 ui-monospace, "Liberation Mono", monospace;
  overflow: hidden; padding: 16px; white-space: pre-wrap }
:not(pre) > code { background: #818b981f; border-radius: 6px; font: 85% ui-monospace, "Liberation Mono", monospace;
  padding: .2em .4em }
summary { cursor: pointer }
"""
MARKS = {"❌": ("✖", "bad"), "✅": ("✔", "good"), "⚠️": ("⚠", "warning"), "⚪": ("○", "soft")}
"""In the place of emoji, for which a machine may have no font."""
CHARTS = """async () => {
    for (const block of document.querySelectorAll('pre.mermaid')) block.textContent = block.textContent
    mermaid.initialize({startOnLoad: false, securityLevel: 'strict'})
    await mermaid.run({querySelector: 'pre.mermaid'})
}"""


def main() -> None:
    """Have torchperf write the text, and a browser show it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("kind", choices=("issue", "comment"))
    parser.add_argument("picture", type=Path)
    parser.add_argument("--verdicts", nargs="*", default=[])
    parser.add_argument("--culprits", nargs="*", default=[])
    parser.add_argument("--height", type=int, help="only so much of the top")
    given = parser.parse_args()
    draw(page(given.kind, written(given.kind, given.verdicts, given.culprits)), given.picture, given.height)


def written(kind: str, verdicts: list[str], culprits: list[str]) -> str:
    """What ``torchperf report`` says; of several issues the longest."""
    files = [
        *(("--verdicts", *verdicts) if verdicts else ()),
        *(("--culprits", *culprits) if culprits else ()),
    ]
    where = ("--repo", "octo/smallnet", *(("--pull-request", "7") if kind == "comment" else ()))
    with tempfile.TemporaryDirectory() as folder:
        to = "issues" if kind == "issue" else "comment"
        assert cli.main(["report", *files, "--to", to, *where, "--dry-run", "--out", folder]) == 0
        return max((file.read_text(encoding="utf-8") for file in Path(folder).iterdir()), key=len)


def page(kind: str, text: str) -> str:
    """The text in what GitHub has around it."""
    parser = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
    title, _, body = text.partition("\n") if kind == "issue" else ("", "", text)
    shown = parser.render(body).replace('<pre><code class="language-mermaid">', '<pre class="mermaid"><code>')
    above = ""
    if kind == "issue":
        name = re.sub("^<h1>|</h1>$", "", parser.render(title).strip())
        above = (
            f'<h1 class="title">{name} <span>#12</span></h1>'
            f'<div><span class="state">Open</span>{"".join(map(label, ("torchperf", "module: performance")))}</div>'
        )
    for sign, (mark, colour) in MARKS.items():
        shown = shown.replace(sign, f'<span style="color: var(--{colour})">{mark}</span>')
    head = '<div class="head"><b>github-actions</b> bot '
    head += "opened this issue" if kind == "issue" else "commented"
    return (
        f"<!doctype html><meta charset=utf-8><style>{STYLE}</style>{above}"
        f'<div class="box">{head}</div><div class="body">{shown}</div></div>'
    )


def label(name: str) -> str:
    """As GitHub shows one."""
    return f'<span class="label">{escape(name)}</span>'


def draw(html: str, picture: Path, height: int | None = None) -> None:
    """A PNG of the page, or of its top, in the light theme and in the dark one."""
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    assert chromium, "chromium is missing: `apt-get install chromium`"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        shown = browser.new_context(
            offline=True, viewport={"width": WIDTH, "height": height or 600}
        ).new_page()
        shown.set_content(html)
        if "mermaid" in html:
            shown.add_script_tag(path=MERMAID)
            shown.evaluate(CHARTS)
        for scheme, path in (
            ("light", picture),
            ("dark", picture.with_stem(f"{picture.stem}-dark")),
        ):
            shown.emulate_media(color_scheme=scheme)
            shown.screenshot(path=path, full_page=height is None)
        browser.close()


if __name__ == "__main__":
    main()
