"""Issues as GitHub shows them: Markdown made HTML, and Mermaid drawing the chart, in a browser without a network."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import pytest
from hostile import all_at_once
from made_night import JUDGEMENT, LOCATION, NIGHT, RUN_URL, hostile_night
from markdown_it import MarkdownIt

from torchperf_ci.document import Document
from torchperf_ci.issues.body import IssueContext, issue_document
from torchperf_ci.issues.findings import findings_of
from torchperf_ci.issues.lifecycle import remember_finding
from torchperf_ci.markdown import to_markdown
from torchperf_ci.page import page as page_of
from torchperf_ci.series.points import Series
from torchperf_ci.stats.effect import Effect
from torchperf_ci.verdicts.verdict import Judgement, Verdict
from torchperf_ci.verdicts.verdict_document import verdicts_document

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, BrowserContext, Page

    from torchperf_ci.culprits.culprit import Bisection

MERMAID = Path(__file__).parents[2] / ".cache/npm/node_modules/@mermaid-js/tiny/dist/mermaid.tiny.js"
LIKE_GITHUB = """
body { font: 14px/1.5 system-ui, sans-serif; margin: 24px auto; max-width: 880px }
table { border-collapse: collapse; display: block; overflow: auto }
td, th { border: 1px solid #d1d9e0; padding: 6px 13px }
pre { background: #f6f8fa; overflow: auto; padding: 16px }
code { background: #f6f8fa }
"""


@pytest.fixture
def window(browser: Browser) -> Iterator[BrowserContext]:
    """Without a network."""
    with browser.new_context(offline=True, viewport={"width": 960, "height": 1400}) as context:
        yield context


def shown(window: BrowserContext, issue: Document, to: Path) -> Page:
    """The page of an issue with this body, whose picture goes to ``to``."""
    assert MERMAID.exists(), "Mermaid is missing: `make .cache/npm`"
    parser = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
    text = to_markdown(Document("", issue.blocks))
    html = parser.render(text).replace('<pre><code class="language-mermaid">', '<pre class="mermaid"><code>')
    page = window.new_page()
    page.set_content(f"<!doctype html><style>{LIKE_GITHUB}</style>{html}")
    page.add_script_tag(path=MERMAID)
    page.evaluate("""async () => {
        for (const block of document.querySelectorAll('pre.mermaid')) block.textContent = block.textContent
        mermaid.initialize({startOnLoad: false, securityLevel: 'strict'})
        await mermaid.run({querySelector: 'pre.mermaid'})
    }""")
    page.screenshot(path=to, full_page=True)
    return page


def issues(judgement: Judgement = JUDGEMENT, location: Bisection = LOCATION) -> list[Document]:
    """Those of a night."""
    findings = findings_of([judgement], [location], NIGHT, 3)
    return [
        issue_document(finding, remember_finding(None, finding, NIGHT), IssueContext(NIGHT, RUN_URL))
        for finding in findings
    ]


def test_the_chart_is_a_picture_with_every_point_and_the_table_has_its_rows(
    window: BrowserContext, tmp_path: Path
) -> None:
    page = shown(window, issues()[0], tmp_path / "issue.png")
    picture = page.locator("pre.mermaid svg")
    assert picture.count() == 1
    lines = [line.get_attribute("d") or "" for line in picture.locator(".plot path").all()]
    assert [len(re.findall("[ML]", line)) for line in lines] == [27, 27]
    assert "latency" in picture.text_content()
    rows = [row.inner_text() for row in page.locator("table").first.locator("tbody tr").all()]
    assert len(rows) == 4
    numbers = rows[0].replace("\N{NO-BREAK SPACE}", " ").replace("\N{WORD JOINER}", "").split("\t")[3:]
    assert numbers == ["1.213 → 1.299 ms", "+7.1% (+6.7…+7.5)", "10 pairs"]
    assert page.locator("details").count() == 3
    assert not page.locator("details[open]").count()


def test_nothing_hostile_becomes_an_element(window: BrowserContext, tmp_path: Path) -> None:
    page = shown(window, issues(*hostile_night(all_at_once))[0], tmp_path / "hostile.png")
    assert page.locator("pre.mermaid svg").count() == 1, "the chart is drawn all the same"
    assert page.title() == ""
    assert not page.locator("body :is(img, script, iframe, h1, h2, h3, del, form, input)").count()
    assert [link.get_attribute("href") for link in page.locator("a").all()] == [RUN_URL]
    assert page.locator("table").first.locator("tbody tr").count() == 1


def test_the_page_on_disk_shows_the_same(window: BrowserContext, axe: str, tmp_path: Path) -> None:
    (tmp_path / "report.html").write_text(page_of("issues", issues()))
    page = window.new_page()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto((tmp_path / "report.html").as_uri())
    page.screenshot(path=tmp_path / "page.png", full_page=True)
    assert [chart.locator("circle").count() for chart in page.locator("svg:has(circle)").all()] == [27, 27]
    assert page.locator("table").first.locator("tbody tr").count() == 4
    assert asked == [(tmp_path / "report.html").as_uri()]
    page.emulate_media(color_scheme="dark")
    page.screenshot(path=tmp_path / "dark.png", full_page=True)
    dark = "getComputedStyle(document.body).backgroundColor"
    assert page.evaluate(dark) == "rgb(13, 17, 23)"
    page.set_viewport_size({"width": 375, "height": 800})
    page.evaluate("document.querySelectorAll('details').forEach((folded) => { folded.open = true; })")
    page.evaluate(axe)
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    assert [one["nodes"][0]["html"] for one in found["violations"]] == []


@pytest.mark.parametrize(("media", "width"), [("screen", 1280), ("print", 688)], ids=["screen", "A4"])
def test_a_long_name_leaves_the_other_columns_in_sight(
    window: BrowserContext, tmp_path: Path, media: Literal["screen", "print"], width: int
) -> None:
    series = (Series("o/r", "b", name, "", "", "", "", "", "latency(ms)") for name in ("resnet", "n" * 120))
    effect = Effect(1.031, 1.024, 1.039, 12)
    verdicts = [Verdict(each, "regressed", "y" * 300, effect, 1234567.0, 1272838.6) for each in series]
    (tmp_path / "report.html").write_text(
        page_of("names", [verdicts_document([Judgement(verdicts=verdicts)])])
    )
    page = window.new_page()
    page.set_viewport_size({"width": width, "height": 900})
    page.emulate_media(media=media)
    page.goto((tmp_path / "report.html").as_uri())
    assert page.locator("table").first.evaluate("table => table.scrollWidth <= table.clientWidth")
