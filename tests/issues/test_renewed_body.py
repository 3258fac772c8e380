from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from made_night import JUDGEMENT, LOCATION, NIGHT, RESNET, RUN_URL, a_large_night

from torchperf_ci.issues.body import BODY_LIMIT, IssueContext, issue_body, renewed_body
from torchperf_ci.issues.findings import findings_of
from torchperf_ci.issues.lifecycle import remember_finding
from torchperf_ci.issues.memory import MEMORY_MARKER, memory_line, parse_memory
from torchperf_ci.issues.table import TABLE_MARKERS

CONTEXT = IssueContext(NIGHT, RUN_URL)
FINDING = findings_of([JUDGEMENT], [LOCATION], NIGHT, 3)[0]


def test_a_renewed_issue_keeps_what_people_wrote() -> None:
    before = remember_finding(None, FINDING, NIGHT)
    edited = f"Please look at this.\n\n{issue_body(FINDING, before, CONTEXT)}\n\nI did. -- Ada\n"
    after = remember_finding(
        before,
        replace(FINDING, rows=(replace(FINDING.rows[0], series=replace(RESNET, model="new")),)),
        "2026-11-22",
    )
    text = renewed_body(edited, after)
    assert parse_memory(text) == parse_memory(memory_line(after))
    assert text.startswith("Please look at this.")
    assert text.endswith("I did. -- Ada\n")
    assert "| new | latency |" in text
    without = [TABLE_MARKERS.sub("", re.sub("<!-- torchperf:memory.*", "", one)) for one in (edited, text)]
    assert without[0] == without[1]
    assert renewed_body(text, after) == text, "again changes nothing"


def test_where_the_markers_are_gone_they_come_back() -> None:
    memory = remember_finding(None, FINDING, NIGHT)
    text = renewed_body("Only this.", memory)
    assert text.startswith(memory_line(memory))
    assert "Only this." in text
    assert TABLE_MARKERS.search(text)
    assert renewed_body(text, memory) == text


@pytest.mark.parametrize("end", ["<!-- torchperf:table -->\n", "<!-- /torchperf:table -->\n"])
def test_where_one_end_of_the_table_is_gone_only_tables_are_updated(end: str) -> None:
    memory = remember_finding(None, FINDING, NIGHT)
    text = issue_body(FINDING, memory, CONTEXT).replace(end, "")
    once = renewed_body(text, memory)
    assert once.startswith(text.rstrip())
    other = replace(memory, rows=memory.rows[:1])
    rest = text.partition("-->")[2].rstrip()
    assert rest in renewed_body(once, other)


def test_two_memories_become_one() -> None:
    memory = remember_finding(None, FINDING, NIGHT)
    text = renewed_body(f"{memory_line(memory)}\n\nCopied: {memory_line(memory)}\n", memory)
    assert parse_memory(text) == parse_memory(memory_line(memory))
    assert len(MEMORY_MARKER.findall(text)) == 1
    assert "Copied:" in text


def test_what_is_typed_before_the_memory_stays_there() -> None:
    memory = remember_finding(None, FINDING, NIGHT)
    text = renewed_body(f"Look!{issue_body(FINDING, memory, CONTEXT)}", memory)
    assert text.startswith(f"Look!{memory_line(memory)}\n")


@pytest.mark.parametrize("above", ["Please look at this.\n\n", "Look!"])
def test_an_issue_that_is_rewritten_keeps_what_people_wrote_around_it(above: str) -> None:
    memory = remember_finding(None, FINDING, NIGHT)
    edited = f"{above}{issue_body(FINDING, memory, CONTEXT)}\n\nI did. -- Ada"
    for _ in range(2):
        edited = issue_body(FINDING, replace(memory, reported="2026-11-22"), CONTEXT, edited)
    assert edited.startswith(f"{above}<!-- torchperf:memory ")
    assert edited.endswith("-->\n\nI did. -- Ada")
    assert parse_memory(edited) == replace(parse_memory(memory_line(memory)), reported="2026-11-22")
    assert len(TABLE_MARKERS.findall(edited)) == 1
    assert len(issue_body(FINDING, memory, CONTEXT, f"{'word ' * 6000}{edited}")) <= BODY_LIMIT
    assert "word word" not in issue_body(FINDING, memory, CONTEXT, f"{'word ' * 8000}{edited}")


def test_an_error_that_quotes_our_end_does_not_end_ours() -> None:
    """An error is shown as code, which nothing escapes. All below it was taken for what people wrote, each time."""
    finding = replace(FINDING, kind="broken", culprit=None, why="assert '<!-- /torchperf -->' in page")
    memory = remember_finding(None, finding, NIGHT)
    edited = f"{issue_body(finding, memory, CONTEXT)}\n\nI did. -- Ada"
    assert issue_body(finding, memory, CONTEXT, edited) == edited


def test_lines_that_a_browser_sent_are_found() -> None:
    memory = remember_finding(None, FINDING, NIGHT)
    text = issue_body(FINDING, memory, CONTEXT).replace("\n", "\r\n")
    assert len(TABLE_MARKERS.findall(renewed_body(text, memory))) == 1


def test_an_issue_of_an_earlier_version_is_read_and_updated() -> None:
    """This one escaped more than is escaped now, had its notes in a table, and had a row without proof."""
    before = (Path(__file__).parent / "issue-of-earlier-version.md").read_text()
    memory = parse_memory(before)
    assert memory is not None
    *rows, _ = memory.rows
    known = remember_finding(None, FINDING, NIGHT)
    assert replace(memory, rows=tuple(rows)) == parse_memory(memory_line(known))
    text = renewed_body(before, replace(memory, reported="2026-11-22"))
    assert parse_memory(text) == replace(memory, reported="2026-11-22")
    assert len(TABLE_MARKERS.findall(text)) == 1
    assert TABLE_MARKERS.sub("", MEMORY_MARKER.sub("", text)) == TABLE_MARKERS.sub(
        "", MEMORY_MARKER.sub("", before)
    ), "the rest stays"
    assert "| +7.1% (+6.7…" in text.replace("\N{WORD JOINER}", "").replace("\N{NO-BREAK SPACE}", " ")


@pytest.mark.parametrize("words", ["word " * 10_000, "word " * 200_000, "ö" * 100_000, "o" + "ö" * 100_000])
def test_a_renewed_issue_always_fits(words: str) -> None:
    judgement, location = a_large_night(300)
    memory = remember_finding(None, findings_of([judgement], [location], NIGHT, 3)[0], NIGHT)
    for end in ("", memory_line(memory)):
        text = renewed_body(f"{words}\n{end}\n", memory)
        assert len(text.encode()) <= BODY_LIMIT
        assert parse_memory(text) is not None
