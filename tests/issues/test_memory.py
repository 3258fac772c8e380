from __future__ import annotations

import json
from dataclasses import replace
from math import inf, nan
from typing import Any, get_args

import pytest
from hostile import all_at_once, texts
from hypothesis import given, settings
from hypothesis import strategies as st
from made_night import NIGHT, RESNET

from torchperf_ci.issues.findings import IssueFinding, cause_fingerprint
from torchperf_ci.issues.lifecycle import remember_finding
from torchperf_ci.issues.memory import (
    MEMORY_MARKER,
    MEMORY_ROOM,
    IssueKind,
    IssueMemory,
    IssueRow,
    memory_line,
    parse_memory,
)
from torchperf_ci.series.points import Series
from torchperf_ci.stats.effect import Effect

ROW = IssueRow(RESNET, 1.213, 1.299, Effect(1.071, 1.067, 1.075, 10), NIGHT, proven=True)
NAME = cause_fingerprint("culprit", "a" * 40)
MEMORY = IssueMemory("culprit", (NAME,), (ROW,), "2026-11-19", NIGHT, (), accepted=False)

nights = st.dates().map(str)
levels = st.none() | st.floats()
effects = st.none() | st.builds(Effect, st.floats(0), st.floats(0), st.floats(0), st.integers(0, 10**9))
rows = st.builds(
    IssueRow, st.builds(Series, *[texts] * 9), levels, levels, effects, nights | st.just(""), st.booleans()
)
memories = st.builds(
    IssueMemory,
    st.sampled_from(get_args(IssueKind)),
    st.lists(texts.map(lambda text: cause_fingerprint("culprit", text)), max_size=3).map(tuple),
    st.lists(rows, max_size=5, unique_by=lambda row: row.series).map(tuple),
    nights,
    nights,
    st.lists(nights, max_size=3).map(tuple),
    st.booleans(),
    nights | st.just(""),
)


@settings(deadline=None)
@given(memories, texts, texts)
def test_what_is_hidden_is_found_again_and_nothing_else_of_it_is_seen(
    memory: IssueMemory, before: str, after: str
) -> None:
    hidden = memory_line(memory)
    assert hidden.count("\n") == 0
    assert hidden.count("<") == hidden.count(">") == 1
    assert hidden[4:-3].count("--") == 0
    assert not set(hidden) & {"@", "#"}
    found = parse_memory(f"{hidden}\n\n{_elsewhere(before)}{_elsewhere(after)}")
    assert found is not None
    assert memory_line(found) == hidden
    assert (found.kind, found.fingerprints, found.accepted) == (
        memory.kind,
        memory.fingerprints,
        memory.accepted,
    )
    assert {row.series for row in found.rows} == {row.series for row in memory.rows}


def _elsewhere(text: str) -> str:
    """As it would stand in an issue, where no line of it begins with what it likes."""
    return f"x {' '.join(text.split())}\n"


def test_numbers_come_back_as_they_are_shown() -> None:
    assert parse_memory(memory_line(MEMORY)) == MEMORY
    open_ended = replace(MEMORY, rows=(replace(ROW, effect=Effect(1.5, 0.0, inf, 0), old=nan, new=None),))
    (row,) = parse_memory(memory_line(open_ended)).rows
    assert row == replace(ROW, effect=Effect(1.5, 0.0, inf, 0), old=None, new=None)


@pytest.mark.parametrize(
    "body",
    [
        f"I looked at this.\r\n{memory_line(MEMORY)}\r\nAnd this, too.\r\n",
        f"Above.\n\nOn its line.{memory_line(MEMORY)} After it.\n",
        f"{memory_line(MEMORY)}\n\nCopied:\n{memory_line(replace(MEMORY, accepted=True))}\n",
    ],
)
def test_people_may_write_around_it(body: str) -> None:
    assert parse_memory(body) == MEMORY


def forged(**members: Any) -> str:
    """The memory with other members."""
    text = memory_line(MEMORY).removeprefix("<!-- torchperf:memory ").removesuffix(" -->")
    return f"<!-- torchperf:memory {json.dumps({**json.loads(text), **members})} -->"


@pytest.mark.parametrize(
    "body",
    [
        "",
        "<!-- torchperf:memory {} -->",
        "<!-- torchperf:memory {" + "[" * 100_000 + "} -->",
        '<!-- torchperf:memory {"version": 1, "version": 1e999} -->',
        "<!-- torchperf:memory nonsense -->",
        f"    {memory_line(MEMORY)}",
        f"> {memory_line(MEMORY)}",
        f"\t{memory_line(MEMORY)}",
        f"    said: {memory_line(MEMORY)}",
        forged(version=2),
        forged(kind="other"),
        forged(fingerprints=["../../etc"]),
        forged(fingerprints=[f"{NAME}\n"]),
        forged(opened="yesterday"),
        forged(opened="2026-11-21\n"),
        forged(accepted="yes"),
        forged(names=[]),
        forged(names=[1] * 9),
        forged(names=["\ud800"] * 9),
        forged(rows=[{}]),
        forged(rows=[{"series": [-1] * 9, "levels": [1, 1], "effect": None, "night": "", "proven": True}]),
        forged(rows=[{"series": [0.0] * 9, "levels": [1, 1], "effect": None, "night": "", "proven": True}]),
        forged(rows=[{"series": [0] * 9, "levels": [1e301, 1], "effect": None, "night": "", "proven": True}]),
        forged(rows=[{"series": [0] * 9, "levels": [1, 1], "effect": [], "night": "", "proven": True}]),
        forged(recovered=[nan]),
    ],
)
def test_what_is_not_ours_is_nothing(body: str) -> None:
    assert parse_memory(body) is None


def test_more_rows_than_there_is_room_for_lose_the_smallest_changes() -> None:
    many = tuple(
        replace(ROW, series=replace(RESNET, model=f"model{n}"), effect=Effect(1 + n / 1000, 1, 2, 10))
        for n in range(2000)
    )
    hidden = memory_line(replace(MEMORY, rows=many))
    assert MEMORY_ROOM - 200 < len(hidden) <= MEMORY_ROOM
    kept = parse_memory(hidden).rows
    assert len(kept) > 200
    assert [row.series.model for row in kept] == [f"model{1999 - n}" for n in range(len(kept))]


def finding(*rows: IssueRow, name: str = NAME) -> IssueFinding:
    return IssueFinding("culprit", name, rows)


def test_a_new_issue_remembers_its_finding() -> None:
    assert remember_finding(None, finding(ROW), NIGHT) == replace(MEMORY, opened=NIGHT)


def test_the_same_night_again_changes_nothing() -> None:
    once = remember_finding(MEMORY, finding(ROW), NIGHT)
    assert remember_finding(once, finding(ROW), NIGHT) == once == MEMORY


def test_a_later_night_adds_rows_and_names_and_keeps_the_evidence() -> None:
    seen = replace(ROW, effect=Effect(1.5, 1.4, 1.6, 0), old=1.0, night="2026-11-22", proven=False)
    other = replace(seen, series=replace(RESNET, model="other"))
    another = cause_fingerprint("culprit", "b")
    memory = remember_finding(MEMORY, finding(seen, other, name=another), "2026-11-22")
    assert memory.rows == (replace(ROW, night="2026-11-22"), other)
    assert memory.fingerprints == (NAME, another)
    assert (memory.opened, memory.reported) == ("2026-11-19", "2026-11-22")


def test_what_is_proven_takes_the_place_of_what_was_only_seen() -> None:
    seen = replace(ROW, effect=Effect(1.5, 1.4, 1.6, 0), night="2026-11-20", proven=False)
    memory = remember_finding(replace(MEMORY, rows=(seen,)), finding(ROW), NIGHT)
    assert memory.rows == (ROW,)


def test_an_earlier_night_again_does_not_turn_back_the_clock() -> None:
    earlier = remember_finding(MEMORY, finding(replace(ROW, night="2026-11-20")), "2026-11-20")
    assert earlier == MEMORY


def test_no_text_makes_a_second_memory() -> None:
    memory = replace(MEMORY, rows=(replace(ROW, series=Series(*[all_at_once] * 9)),))
    assert len(MEMORY_MARKER.findall(memory_line(memory))) == 1
    assert parse_memory(memory_line(memory)) == memory
