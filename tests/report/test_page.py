from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest

from torchperf_ci.report.page import page

CHART = """```mermaid
xychart-beta
    title "resnet18 latency on H100"
    x-axis "runs, the newest is 0" -3 --> 0
    y-axis "ms" 1.1 --> 1.4
    line [1.2, 1.21, 1.3, 1.31]
    line [1.2, 1.2, 1.3, 1.3]
```
"""


class Tags(HTMLParser):
    """The start tags of a page, each with its attributes."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def __getitem__(self, name: str) -> list[dict[str, str | None]]:
        return [attributes for tag, attributes in self.found if tag == name]


def test_a_page_needs_nothing_beside_itself() -> None:
    html = page("a & b", "# Title\n\n[a link](https://github.com/octo/perf)\n")
    tags = Tags(html)
    assert html.startswith("<!doctype html>")
    assert "<title>a &amp; b</title>" in html
    assert not tags["script"] + tags["link"] + tags["img"]
    assert "@import" not in html
    assert "url(" not in html
    (policy,) = [meta["content"] for meta in tags["meta"] if "http-equiv" in meta]
    assert "default-src 'none'" in (policy or "")


def test_tables_and_folded_parts_are_kept() -> None:
    html = page(
        "t",
        "| a | b |\n| --- | --- |\n| 1 | 2 |\n\n<details><summary>more</summary>\n\n**x**\n\n</details>\n",
    )
    assert re.search(r"<td>1</td>\s*<td>2</td>", html)
    assert "<details><summary>more</summary>" in html
    assert "<strong>x</strong>" in html


def test_it_is_light_and_dark() -> None:
    assert "prefers-color-scheme: dark" in page("t", "")


def test_a_chart_is_drawn_from_its_own_data() -> None:
    tags = Tags(page("t", CHART))
    (picture,) = tags["svg"]
    assert picture["aria-label"] == "resnet18 latency on H100"
    places = [(float(dot["cx"] or 0), float(dot["cy"] or 0)) for dot in tags["circle"]]
    assert places == sorted(places)[: len(places)]
    heights = [y for _, y in places]
    assert len(heights) == 4
    assert heights[0] > heights[1] > heights[2] > heights[3], "more is higher up"
    assert [line["class"] for line in tags["polyline"]] == ["level", "values"]
    assert not tags["pre"]


@pytest.mark.parametrize(
    "text",
    [
        "```mermaid\nflowchart TD\n  A --> B\n```\n",
        CHART.replace("1.31]", "1e3]"),
        CHART.replace("y-axis", "z-axis"),
        CHART.replace("mermaid", "text"),
    ],
)
def test_another_chart_stays_text(text: str) -> None:
    tags = Tags(page("t", text))
    assert not tags["svg"]
    assert tags["pre"]


def test_a_chart_holds_no_markup() -> None:
    tags = Tags(page("t", CHART.replace("resnet18", "<img src=x onerror=alert(1)>")))
    assert tags["svg"]
    assert not tags["img"]
