from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser
from typing import TYPE_CHECKING

import pytest
from markdown_it import MarkdownIt

from torchperf_ci.culprits.culprit import Bisection
from torchperf_ci.culprits.culprit_document import GITHUB, bisection_document
from torchperf_ci.markdown import to_markdown

if TYPE_CHECKING:
    from torchperf_ci.culprits.culprit import Culprit

ROOM = 65_536
COMMIT = "1a2b3c4d5e" * 4


def bisection_markdown(bisection: Bisection, room: int, server: str = GITHUB) -> str:
    return to_markdown(bisection_document(bisection, server), room)


class Page(HTMLParser):
    """The names of the tags, the links, and the text outside of blocks of code."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.links: list[str] = []
        self.text = self.code = ""
        self._in_code = False
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.links += [value or "" for name, value in attrs if name == "href"]
        self._in_code = self._in_code or tag == "code"

    def handle_endtag(self, tag: str) -> None:
        self._in_code = self._in_code and tag != "code"

    def handle_data(self, data: str) -> None:
        if self._in_code:
            self.code += data
        else:
            self.text += data


def rendered(text: str) -> Page:
    """As GitHub reads it: HTML passes, tables are on."""
    parser = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
    return Page(parser.render(text))


def test_how_it_ended_is_first_then_the_commit_then_its_table_and_the_rest_is_folded(
    bisection: Bisection,
) -> None:
    text = bisection_markdown(bisection, ROOM)
    assert text.startswith("### 🎯 Bisection: 1 culprit found")
    page, folded = rendered(text), text.split("<details>")[1:]
    places = [
        page.text.index(part)
        for part in (
            "1 culprit found: 1a2b3c4d5e Check the shapes twice (#123)",
            "What is left of the slowdown is below 1%.",
            "one measurement was repeated",
            "by Ada Lovelace, 2026-11-01, pull request 123, 99.7% sure",
            "change (95%)",
            "Remaining suspects",
            "57 runs, 7 builds",
        )
    ]
    assert places == sorted(places)
    assert [part.partition("</summary>")[0] for part in folded] == [
        "<summary>Bad against good",
        "<summary>Commits that could not be measured: 1",
        "<summary>Measurements: 3",
    ]


def test_the_command_is_there_to_the_letter(bisection: Bisection) -> None:
    text = bisection_markdown(bisection, ROOM)
    fetch = f"git fetch origin {bisection.good} {bisection.bad}"
    assert rendered(text).code == f"pip install torch==2.13.0cd perf\n{fetch}\n{bisection.command}\n"
    assert "**To repeat it**, in a clone of the repository, with PyTorch 2.13.0 in the active Python" in text


def test_a_reason_stands_in_the_title_alone_where_nobody_is_named(bisection: Bisection) -> None:
    nobody = replace(bisection, status="inconclusive", culprits=(), why="It takes 40 more pairs.")
    text = bisection_markdown(nobody, ROOM)
    assert text.startswith("### ⚠️ Bisection: inconclusive: It takes 40 more pairs.\n")
    assert text.count("40 more pairs") == 1
    assert text.index("Bad against good") < text.index("<details>")


def test_notes_stand_beside_the_headline(bisection: Bisection) -> None:
    text = bisection_markdown(replace(bisection, notes=("⚠ load 9 on 2 CPUs while this was measured",)), ROOM)
    assert text.index("> ⚠ load 9 on 2 CPUs") < text.index("####") < text.index("<details>")


def test_a_commit_is_linked_with_its_pull_request(bisection: Bisection) -> None:
    assert rendered(bisection_markdown(bisection, ROOM)).links == [
        f"https://github.com/octo/perf/commit/{COMMIT}",
        "https://github.com/octo/perf/pull/123",
    ]


@pytest.mark.parametrize(
    "url",
    [
        None,
        f"https://evil.example/octo/perf/commit/{COMMIT}",
        f"https://github.com.evil.example/octo/perf/commit/{COMMIT}",
        f"https://github.com@evil.example/octo/perf/commit/{COMMIT}",
        f"http://github.com/octo/perf/commit/{COMMIT}",
        f"javascript:alert(1)//github.com/octo/perf/commit/{COMMIT}",
        f"https://github.com/octo/perf/commit/{'0' * 40}",
        f"https://github.com/octo/perf/commit/{COMMIT}\n",
        f"https://github.com/octo/perf/commit/{COMMIT}) [x](https://evil.example",
    ],
)
def test_a_link_that_leads_elsewhere_is_left_out(
    bisection: Bisection, culprit: Culprit, url: str | None
) -> None:
    elsewhere = replace(bisection, culprits=(replace(culprit, url=url),))
    assert rendered(bisection_markdown(elsewhere, ROOM)).links == []


def test_an_enterprise_server_links_to_itself_only(bisection: Bisection, culprit: Culprit) -> None:
    server = "https://git.corp.example"
    at_home = replace(culprit, url=f"{server}/octo/perf/commit/{COMMIT}")
    text = bisection_markdown(replace(bisection, culprits=(culprit, at_home)), ROOM, server)
    assert rendered(text).links == [at_home.url, f"{server}/octo/perf/pull/123"]


def test_text_from_outside_is_text(hostile: Bisection) -> None:
    text = bisection_markdown(hostile, ROOM)
    page = rendered(text)
    assert {*page.tags} <= {
        *("h3", "h4", "p", "table", "thead", "tbody", "tr", "th", "td"),
        *("strong", "blockquote", "details", "summary", "sub", "pre", "code", "ul", "li"),
    }
    assert page.links == []
    commands = re.findall(r"^    .*", text, re.MULTILINE)
    assert page.tags.count("details") == len(re.findall("^<details>", text, re.MULTILINE))
    outside = re.sub(r"^#+ |^    .*", "", text, flags=re.MULTILINE)
    assert not re.search(r"@(?!<!-- -->)|(?<![#&])#(?!<!-- -->|#|\d+;)", outside)
    assert not re.search(r"://|www\.|\bGH-\d", outside), "what GitHub would make a link or a reference"
    assert not re.search(r"^::error", text, re.MULTILINE)
    assert page.code.count("\n") == len(commands)


@pytest.mark.parametrize("start", ["", "```", "~~~\n", "\n\n", "</code></pre>"])
def test_no_command_ends_its_block(bisection: Bisection, start: str) -> None:
    command = f"{start}run\n```\n</code></pre>\n\n<img src=x>"
    page = rendered(bisection_markdown(replace(bisection, command=command), ROOM))
    assert "img" not in page.tags
    assert page.code.split("\n", 2)[2].split() == command.split()


@pytest.mark.parametrize("room", [65_536, 20_000, 6000, 200])
def test_what_does_not_fit_loses_rows_and_says_how_many(hostile: Bisection, room: int) -> None:
    many = replace(
        hostile, readings=hostile.readings * 3000, notes=hostile.notes * 300, skipped=hostile.skipped * 9
    )
    text = bisection_markdown(many, room)
    assert len(text.encode()) <= room
    assert text.startswith("### 🎯 Bisection: ")
    page = rendered(text)
    assert page.links == []
    if "no room here" not in text:
        [measurements] = re.findall(r"<summary>Measurements: 3,000</summary>(.*?)</details>", text, re.DOTALL)
        [hidden] = re.findall(r"^…and ([\d,]+) more, left out here$", measurements, re.MULTILINE)
        assert measurements.count("\n| ") - 2 + int(hidden.replace(",", "")) == 3000


def test_a_minimal_location_says_what_it_knows() -> None:
    assert bisection_markdown(Bisection("not-reproduced", "a", "b"), ROOM) == (
        "### ⚪ Bisection: not reproduced\n\nBetween a and b\n\n<sub>0 runs, 0 builds</sub>\n"
    )
