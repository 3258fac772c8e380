from __future__ import annotations

import pytest

from torchperf_ci.markdown import first, fitted, folded, more, plain, row, size, table


def test_a_table_says_how_many_rows_are_left_out() -> None:
    assert row(["a", "b"]) == "| a | b |"
    assert table(["x"], [["1"], ["2"]], 2) == "| x |\n| --- |\n| 1 |\n| 2 |"
    assert table(["x"], ["1", "2", "3"], 1) == "| x |\n| --- |\n| 1 |\n\n…and 2 more, left out here"


def test_text_from_outside_is_one_line_of_text_and_all_of_it_is_seen() -> None:
    assert plain("a\nb | <c> \u202eevil\u2066") == r"a b &#124; &#60;c&#62; &#92;u202eevil&#92;u2066"
    assert plain("\0\x1b]0;x\x07\x9b31m") == "&#92;x00&#92;x1b&#93;0;x&#92;x07&#92;x9b31m"


def test_a_list_says_how_many_lines_are_left_out() -> None:
    assert first(["- 1", "- 2"], 2, "- ") == ["- 1", "- 2"]
    assert first(["- 1", "- 2"], 1, "- ") == ["- 1", "- …and 1 more, left out here"]
    assert more(0) == more(-1) == []


def test_what_is_folded_is_markdown_again() -> None:
    assert folded("t", "**b**") == "<details><summary>t</summary>\n\n**b**\n\n</details>"


@pytest.mark.parametrize(("room", "rows"), [(0, None), (1, 0), (3, 1), (4, 1), (7, 3), (99, 5)])
def test_as_much_as_has_room(room: int, rows: int | None) -> None:
    text = fitted(lambda rows: "x" + "é" * rows, room, 5)
    assert text == (None if rows is None else "x" + "é" * rows)
    assert text is None or size(text) <= room
