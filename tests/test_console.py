from __future__ import annotations

import io
import os
import pty
import sys
import unicodedata
from collections import Counter

import hostile
import pytest
import terminal
from hypothesis import given
from hypothesis import strategies as st

from torchperf_ci.actions import one_line
from torchperf_ci.cli import main
from torchperf_ci.console import Progress, print_line, print_table, say
from torchperf_ci.document import Column

RUN = (
    Column("workload"),
    Column("mode"),
    Column("batch", "number"),
    Column("latency", "number"),
    Column("between processes", "number"),
    Column("status"),
    Column("why", "prose"),
)
WHY = "the interval lies wholly above what matters, which is three percent of what it was before"
ROWS = (
    ("vision/resnet18", "inference", "8", "21.43 ms", "3.2%", "pass", ""),
    ("scientific/pyhpc_turbulent_kinetic_energy", "inference", "1,024", "1,234,567 ms", "12.9%", "pass", WHY),
    ("operators/conv2d_backward_3x3_32x28x28", "inference", "", "", "", "crashed", WHY),
)


def is_seen(text: str) -> bool:
    """Whether nothing in it commands a terminal or turns the direction of what follows."""
    return all(
        unicodedata.category(character) not in ("Cc", "Cf", "Cs") for character in text.replace("\n", "")
    )


def printed(width: int, columns: tuple[Column, ...] = RUN, rows=ROWS) -> str:
    out = io.StringIO()
    print_table(columns, rows, out, width=width)
    return out.getvalue()


@pytest.mark.parametrize("width", [20, 40, 60, 80, 100, 120, 200, 10_000])
def test_at_no_width_is_anything_cut(width: int) -> None:
    shown = printed(width)
    for row in ROWS:
        for column, cell in zip(RUN, row, strict=True):
            assert column.kind == "prose" or cell in shown
    words = Counter(shown.split())
    for word, times in Counter(f"{WHY} {WHY}".split()).items():
        assert words[word] >= times
    assert "…" not in shown


@pytest.mark.parametrize("width", [60, 80, 100, 120, 200])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    assert max(map(len, printed(width).splitlines())) <= width


def test_a_row_is_one_line_where_there_is_room() -> None:
    head, *lines = printed(200).splitlines()
    assert head.split() == ["workload", "mode", "batch", "latency", "between", "processes", "status", "why"]
    assert [line.split()[0] for line in lines] == [row[0] for row in ROWS]


def test_a_row_whose_prose_fits_is_one_line_though_others_are_too_wide() -> None:
    columns, name = (Column("workload"), Column("why", "prose")), "scientific/pyhpc_turbulent_kinetic_energy"
    lines = printed(60, columns, [("operators/add", "operator"), (name, WHY)]).splitlines()
    assert lines[:2] == ["operators/add  operator", name]


def test_heads_take_several_lines_before_rows_do() -> None:
    columns, rows = (
        (Column("workload"), Column("between processes", "number")),
        [("a/b", "3.2%"), ("c/d", "1%")],
    )
    assert printed(20, columns, rows).splitlines() == [
        "            between",
        "workload  processes",
        "a/b            3.2%",
        "c/d              1%",
    ]


def test_what_all_rows_share_is_said_once_where_room_is_short() -> None:
    assert "mode inference\n" in printed(80)
    assert printed(80).count("inference") == 1
    assert printed(200).count("inference") == len(ROWS)


def test_a_column_without_a_cell_is_left_out() -> None:
    assert printed(80, (Column("case"), Column("why", "prose")), [("a", ""), ("b", "")]).split() == [
        "case",
        "a",
        "b",
    ]


def test_no_row_is_no_table() -> None:
    assert printed(80, rows=()) == ""


def test_wide_characters_take_two_columns() -> None:
    shown = printed(12, (Column("a"), Column("b")), [("漢字漢字", "漢字")])
    assert [line.strip() for line in shown.splitlines()] == ["漢字漢字", "漢字"]


@given(st.lists(st.tuples(hostile.texts, hostile.texts, hostile.texts), max_size=4), st.integers(30, 200))
def test_hostile_cells_stay_cells(rows: list[tuple[str, str, str]], width: int) -> None:
    shown = printed(width, (Column("case"), Column("new", "number"), Column("why", "prose")), rows)
    assert is_seen(shown)
    assert not any(line.lstrip().startswith("::") for line in shown.split("\n"))
    for case, number, _ in rows:
        assert one_line(case).strip() in shown
        assert one_line(number).strip() in shown


def test_lines_command_nothing() -> None:
    out = io.StringIO()
    say(hostile.all_at_once, out=out)
    print_line(hostile.all_at_once, out)
    assert out.getvalue().count("\n") == 2
    assert is_seen(out.getvalue())


CALLS = (
    ["run", "--suite"],
    ["upload", "--to"],
    ["ingest"],
    ["query", "--store"],
    ["check", "records", "--against"],
    ["compare", "--head", "x", "--base"],
    ["bisect", "--bad", "HEAD", "--good"],
    ["report", "--verdicts"],
    [],
)


@pytest.mark.parametrize("call", CALLS, ids=" ".join)
def test_what_a_stranger_named_reaches_no_terminal_as_it_is(
    call: list[str], tmp_path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Names of files, branches and suites are chosen by others, and a terminal obeys its control characters."""
    name = "\x1b]0;pwned\x07\x1b[2J\u202e\x9b31m\x7fx"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GITHUB_ACTIONS", "")
    code = main([*call, name])
    shown = "".join(capsys.readouterr())
    assert code
    assert "pwned" in shown or code == 2
    assert is_seen(shown)


def test_a_terminal_of_80_columns_is_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Written to a real one, of which nobody says how wide it is but itself."""
    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)
    ours, theirs = pty.openpty()
    import fcntl
    import struct
    import termios

    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    with os.fdopen(theirs, "w") as out:
        print_table(RUN, ROWS, out)
    lines = terminal.all_of(ours).splitlines()
    assert max(map(len, lines)) <= 80
    assert any("1,234,567 ms" in line for line in lines)


def test_a_log_gets_a_line_a_step_with_the_time_left(capsys: pytest.CaptureFixture[str]) -> None:
    shown = Progress(3)
    shown.begin("a")
    shown.end("a: pass in 2.2 s", 1)
    shown.end("a: oom: too\nbig", 3, failed=True)
    shown.close()
    assert capsys.readouterr().err.splitlines() == [
        "[1/3, 0:00 left] a: pass in 2.2 s",
        r"[3/3, 0:00 left] a: oom: too\nbig",
    ]


def test_a_terminal_that_cannot_redraw_gets_a_line_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)
    monkeypatch.setenv("TERM", "dumb")
    ours, theirs = pty.openpty()
    with os.fdopen(theirs, "w") as out:
        monkeypatch.setattr(sys, "stderr", out)
        shown = Progress(2)
        shown.begin("a")
        shown.end("a: pass in 2.2 s", 2)
        shown.close()
    assert terminal.all_of(ours) == "[2/2, 0:00 left] a: pass in 2.2 s\r\n"


def test_where_the_time_is_limited_a_line_says_how_much_is_spent(capsys: pytest.CaptureFixture[str]) -> None:
    shown = Progress(600, timed=True)
    shown.end("a: pair 1, +0.1%", state="0 of 2 settled")
    assert capsys.readouterr().err == "[0 of 600 s, 0 of 2 settled] a: pair 1, +0.1%\n"
