"""One document on a terminal, as Markdown, and as a page."""

from __future__ import annotations

import io
import itertools
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING

import hostile
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from torchperf_ci import cli, console
from torchperf_ci.actions import one_line, printable
from torchperf_ci.document import (
    Bold,
    Bullets,
    Chart,
    Code,
    Column,
    Commands,
    Document,
    Folded,
    Heading,
    Hidden,
    Highlighted,
    Link,
    Mention,
    Note,
    NoWrap,
    OnlyOn,
    Paragraph,
    Replaceable,
    Table,
    change_text,
    facts,
    text_of,
)
from torchperf_ci.markdown import to_markdown
from torchperf_ci.page import page

if TYPE_CHECKING:
    from playwright.sync_api import Browser

CHART = Chart("resnet18 latency on H100", "ms", (1.2, 1.21, 1.3, 1.31), (1.2, 1.2, 1.3, 1.3), "in November")
EVERYTHING = Document(
    ("✅ Upload: ", Code("3 records")),
    [
        Hidden("torchperf:memory {}"),
        Paragraph((Bold("Next step:"), " open ", Link("the run", "https://github.com/octo/perf"), ".")),
        Commands(["git fetch origin", "torchperf run --filter 'a  b'"]),
        Note(["load 9 on 2 CPUs", "a record was refused"]),
        Heading("What moved"),
        Table(
            [Column("case"), Column("change", "number"), Column("why", "prose")],
            [(Highlighted("regressed", "bad"), NoWrap("1 → 2"), "because")],
            title="Series",
        ),
        Bullets(["one", ("two ", Bold("three"))]),
        CHART,
        Folded("Machine", [facts({"CPU": "EPYC", "GPU": ""})]),
        OnlyOn("page", [Paragraph(("told ", Mention("ada")), small=True)]),
        OnlyOn("terminal", [Paragraph("in the file")]),
        Replaceable("torchperf:table", [Paragraph("of tonight")]),
    ],
)


class Html(HTMLParser):
    """The tags of a page, its links, and its text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.comments: list[str] = []
        self.text = ""
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data

    def handle_comment(self, data: str) -> None:
        self.comments.append(data.strip())

    def __getitem__(self, name: str) -> list[dict[str, str | None]]:
        return [attributes for tag, attributes in self.tags if tag == name]


def as_github(text: str) -> Html:
    """HTML passes, tables and bare links are on."""
    parser = MarkdownIt("commonmark", {"html": True, "linkify": True}).enable(["table", "strikethrough"])
    return Html(parser.render(text))


def printed(document: Document) -> str:
    out = io.StringIO()
    console.print_document(document, out)
    return out.getvalue()


def test_markdown_of_everything() -> None:
    assert to_markdown(EVERYTHING) == (
        "### ✅ Upload: `3 records`\n\n"
        "<!-- torchperf:memory {} -->\n\n"
        "**Next step:** open [the run](https://github.com/octo/perf).\n\n"
        "    git fetch origin\n    torchperf run --filter 'a  b'\n\n"
        "> load 9 on 2 CPUs\n>\n> a record was refused\n\n"
        "#### What moved\n\n"
        "**Series**\n\n"
        "| case | change | why |\n| --- | --- | --- |\n| ❌ regressed | 1\xa0→\xa02 | because |\n\n"
        "- one\n- two **three**\n\n"
        "```mermaid\n---\nconfig:\n  xyChart: {width: 800, height: 320}\n  themeVariables:\n"
        '    xyChart: {plotColorPalette: "#4493f8, #d1242f"}\n---\nxychart-beta\n'
        '    title "resnet18 latency on H100"\n'
        '    x-axis "runs in November, the newest is 0" -3 --> 0\n'
        '    y-axis "ms" 1.18900 --> 1.32100\n'
        "    line [1.20000, 1.21000, 1.30000, 1.31000]\n    line [1.20000, 1.20000, 1.30000, 1.30000]\n```\n\n"
        "<sub>Blue: each run. Red: the level before and after.</sub>\n\n"
        "<details><summary>Machine</summary>\n\n| fact | value |\n| --- | --- |\n| CPU | EPYC |\n\n</details>\n\n"
        "<sub>told @ada</sub>\n\n"
        "<!-- torchperf:table -->\nof tonight\n<!-- /torchperf:table -->\n"
    )


def test_a_terminal_shows_everything_but_the_title_and_what_is_for_pages() -> None:
    assert printed(EVERYTHING) == (
        "Next step: open the run.\n"
        "    git fetch origin\n    torchperf run --filter 'a  b'\n"
        "load 9 on 2 CPUs\na record was refused\n"
        "\nWhat moved\n"
        "\nSeries\ncase       change  why    \nregressed   1 → 2  because\n"
        "- one\n- two three\n"
        "resnet18 latency on H100: 1.2 → 1.31 ms in 4 runs in November\n"
        "\nMachine\nfact  value\nCPU   EPYC \n"
        "in the file\nof tonight\n"
    )


def test_a_page_needs_nothing_beside_itself() -> None:
    text = page("a & b", [EVERYTHING, EVERYTHING])
    html = Html(text)
    assert text.startswith("<!doctype html>")
    assert "<title>a &amp; b</title>" in text
    assert not html["script"] + html["link"] + html["img"]
    assert "@import" not in text
    assert "url(" not in text
    assert "prefers-color-scheme: dark" in text
    (policy,) = [meta["content"] for meta in html["meta"] if "http-equiv" in meta]
    assert policy == "default-src 'none'; style-src 'unsafe-inline'"
    assert "❌&nbsp;regressed" in text
    assert len(html["h3"]) == len(html["details"]) == len(html["blockquote"]) == 2
    assert "<thead><tr><th>case</th><th>change</th><th>why</th></tr></thead>" in text
    assert (
        '<pre tabindex="0"><code>git fetch origin\ntorchperf run --filter &#x27;a  b&#x27;\n</code></pre>'
        in text
    )


def test_a_page_draws_charts() -> None:
    text = page("t", [Document("", [CHART])])
    html = Html(text)
    (picture,) = html["svg"]
    assert picture["aria-label"] == "resnet18 latency on H100: 1.2 → 1.31 ms in 4 runs in November"
    places = [(float(dot["cx"] or 0), float(dot["cy"] or 0)) for dot in html["circle"]]
    assert places == sorted(places)
    heights = [y for _, y in places]
    assert len(heights) == 4
    assert heights[0] > heights[1] > heights[2] > heights[3], "more is higher up"
    assert [line["class"] for line in html["polyline"]] == ["level", "values"]
    assert "ms; runs in November, the newest is 0" in html.text
    ticks = re.findall(r'class="tick"[^>]*>([^<]*)', text)
    assert 2 <= len(ticks) <= 6
    steps = {round(float(high) - float(low), 6) for low, high in itertools.pairwise(ticks)}
    assert len(steps) == len({len(tick.partition(".")[2]) for tick in ticks}) == 1


@pytest.mark.parametrize("width", [390, 1200])
def test_numbers_of_bytes_have_room_on_a_page(browser: Browser, width: int) -> None:
    """A tick of 16,000,000,000 had lost its first digits, and a cell covered the next one."""
    chart = Chart("memory", "bytes", (1.6e10, 1.9e10))
    row = (NoWrap("15,978,900,000 → 19,204,880,121 bytes"), "+20.2%", "")
    table = Table([Column("old → new"), Column("change"), Column("why", "prose")], [row])
    shown = browser.new_page(viewport={"width": width, "height": 800})
    shown.set_content(page("t", [Document("", [chart, table])]))
    left, right = "Math.round(one.getBoundingClientRect().left)", "one.getBoundingClientRect().right"
    lefts = shown.evaluate(f"[...document.querySelectorAll('svg, .tick')].map((one) => {left})")
    assert min(lefts) == lefts[0]
    rights = shown.evaluate(f"[...document.querySelectorAll('.unbroken, td')].map((one) => {right})")
    assert rights[1] <= rights[0]
    shown.close()


def everywhere(text: str) -> Document:
    """``text`` in each place that a text can have."""
    words = (
        text,
        Bold(text),
        Code(text),
        Highlighted(text, "bad"),
        NoWrap(text),
        Link(text, f"javascript:{text}"),
        Mention(f"{text}!"),
    )
    return Document(
        words,
        [
            Hidden(text),
            Heading(words),
            Paragraph(words),
            Paragraph(words, small=True),
            Note([words, words]),
            Bullets([words, text]),
            Commands([text]),
            Table([Column(text), Column("b", "prose")], [(words, text)], title=text or "t"),
            Chart(text, text, (1, 2), (1, 2), text),
            Folded(words, [Paragraph(text), Commands([text])]),
            Replaceable("torchperf:table", [Paragraph(words)]),
        ],
    )


@settings(deadline=None)  # a machine may be busy
@given(hostile.texts)
def test_text_is_text_in_markdown(text: str) -> None:
    source = to_markdown(everywhere(text))
    html = as_github(source)
    assert {tag for tag, _ in html.tags} <= {
        *("h3", "h4", "p", "strong", "code", "sub", "blockquote", "ul", "li", "pre"),
        *("table", "thead", "tbody", "tr", "th", "td", "details", "summary"),
    }
    assert len(html["details"]) == len(html["table"]) == 1
    assert len(html["li"]) == 2
    outside = re.sub(r"^#+ |^    .*|```mermaid.*?\n```\n", "", source, flags=re.MULTILINE | re.DOTALL)
    outside = re.sub(r"`[^`\n]*`|^<!-- .* -->$", "", outside, flags=re.MULTILINE)
    assert not re.search(r"://|www\.|\bGH-\d", outside, re.IGNORECASE), (
        "what would become a link or a reference"
    )
    assert not re.search(r"^::", source, re.MULTILINE)


@settings(deadline=None)  # a machine may be busy
@given(hostile.texts)
def test_text_is_text_on_a_page(text: str) -> None:
    html = Html(page(text, [everywhere(text)]))
    assert not {tag for tag, _ in html.tags} & {"img", "script", "a", "iframe"}
    assert html.comments == []
    assert printable(" ".join(text.split())) in " ".join(html.text.split()) or "\\" in printable(text)


@settings(deadline=None)  # a machine may be busy
@given(hostile.texts)
def test_text_is_text_on_a_terminal(text: str) -> None:
    shown = printed(everywhere(text))
    assert printable(shown, keep="\n") == shown
    assert not re.search(r"^\s*::", shown, re.MULTILINE)
    assert one_line(text).strip() in shown


@settings(deadline=None)
@given(st.text(st.sampled_from("-+.)12 #*>=|a"), max_size=8))
def test_no_line_begins_a_list_a_heading_or_a_rule(text: str) -> None:
    html = as_github(to_markdown(Document("", [Paragraph(f"{text}x"), Paragraph(text)])))
    assert {tag for tag, _ in html.tags} == {"p"}
    assert " ".join(html.text.split()) == " ".join(f"{text}x {text}".split())


def test_what_is_own_prose_is_read_in_the_source_as_it_is_written() -> None:
    said = "2 regressed: latency(ms) at 10:30 = {x}! (why?)"
    assert to_markdown(Document("", [Paragraph(said)])) == f"{said}\n"


@pytest.mark.parametrize(
    "url",
    ["", "javascript:alert(1)", "https://a.example/x) [y](https://b.example", "http://a@b.example", "//x"],
)
def test_a_link_leads_to_the_web_or_nowhere(url: str) -> None:
    document = Document("", [Paragraph(Link("here", url))])
    assert to_markdown(document) == "here\n"
    assert not Html(page("t", [document]))["a"]


def test_a_link_may_be_code() -> None:
    document = Document("", [Paragraph(Link(Code("a.yml"), "https://x.example/a"))])
    assert to_markdown(document) == "[`a.yml`](https://x.example/a)\n"
    assert printed(document) == "a.yml\n"


def test_commands_below_a_list_are_none_of_its_items() -> None:
    html = as_github(to_markdown(Document("", [Bullets(["a"]), Commands(["<b>x</b>"])])))
    assert [tag for tag, _ in html.tags] == ["ul", "li", "pre", "code"]


def test_what_is_empty_is_not_shown_with_its_title() -> None:
    nothing = [
        Paragraph(""),
        Note([]),
        Bullets([]),
        Commands([]),
        Table([Column("a")], [], title="t"),
        Chart("t", "ms", ()),
        Folded("t", [Note([]), Folded("u", [Bullets([])])]),
    ]
    assert to_markdown(Document("", nothing)) == "\n"
    assert printed(Document("t", nothing)) == ""


def test_columns_that_hold_nothing_can_be_left_out() -> None:
    table = Table([Column("a"), Column("b"), Column("c")], [("1", "", "2"), ("", "", "")], "t", 5)
    assert table.without_empty_columns() == Table([Column("a"), Column("c")], [["1", "2"], ["", ""]], "t", 5)


def test_words_are_also_plain_text() -> None:
    words = (
        "a ",
        Bold("b"),
        Code("c"),
        Link(Code("d"), "x"),
        Link("e", "x"),
        Mention("f"),
        Highlighted("g", "bad"),
    )
    assert text_of(words) == "a bcde@fg"


ROWS = [[f"row {number}"] for number in range(3000)]
LONG = Document(
    "Long: 3000 rows",
    [
        Hidden("memory"),
        Table([Column("first")], ROWS),
        Note([f"note {number}" for number in range(300)]),
        Folded("Rest", [Table([Column("last")], ROWS), Bullets([f"item {number}" for number in range(5)])]),
    ],
)


@pytest.mark.parametrize("room", [20_000, 8000, 1000, 300])
def test_what_does_not_fit_loses_its_last_rows_and_says_how_many(room: int) -> None:
    text = to_markdown(LONG, room)
    assert len(text.encode()) <= room
    shown = text.count("| row ")
    hidden = [
        int(number.replace(",", ""))
        for number in re.findall(r"^…and ([\d,]+) more, left out here$", text, re.MULTILINE)
    ]
    assert shown + sum(hidden) == 6000
    assert room - len(text.encode()) < 40, "as much is shown as fits"


def test_every_list_has_some_rows_before_the_first_has_many() -> None:
    text = to_markdown(LONG, 8000)
    first, last = text.split("<details>")
    assert last.count("| row ") == 10
    assert last.count("- item ") == 5
    assert first.count("| row ") > 100


def test_nobody_reads_more_than_a_thousand_rows() -> None:
    assert to_markdown(LONG).count("| row ") == 2000
    assert "…and 2,000 more, left out here" in to_markdown(LONG)
    assert page("t", [LONG]).count("<td>row ") == 2000
    assert "and 2,900 more, all of them in the file" in printed(LONG)


@pytest.mark.parametrize("room", [110, 180])
def test_without_any_room_there_is_the_title_and_what_programs_read(room: int) -> None:
    text = to_markdown(Document("“Long” " * 50, LONG.blocks), room)
    assert len(text.encode()) <= room
    assert text.startswith("### “")
    assert "\n\n<!-- memory -->\n\nThere is no room here" in text


@pytest.mark.parametrize(
    ("share", "text"),
    [(0.031, "+3.1%"), (-0.031, "−3.1%"), (-0.0001, "+0.0%"), (0.0, "+0.0%"), (12.5, "+1,250.0%")],
)
def test_a_change_has_one_sign_and_it_is_no_hyphen(share: float, text: str) -> None:
    assert change_text(share) == text


def test_no_module_formats_a_sign_for_people_by_itself() -> None:
    package = Path(cli.__file__).parent
    for_programs = {"bench/profiles.py"}  # a table of tab-separated values
    found = [
        name
        for path in sorted(package.rglob("*.py"))
        if (name := path.relative_to(package).as_posix()) not in for_programs
        and re.search(r":\+,?\.\d[f%eg]", path.read_text("utf-8"))
    ]
    assert found == []
