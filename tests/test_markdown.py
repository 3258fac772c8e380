from __future__ import annotations

import pytest

from torchperf_ci.markdown import first, fitted, folded, more, plain, row, size, table


def test_a_table_says_how_many_rows_are_left_out() -> None:
    assert row(["a", "b"]) == "| a | b |"
    assert table(["x"], [["1"], ["2"]], 2) == "| x |\n| --- |\n| 1 |\n| 2 |"
    assert table(["x"], ["1", "2", "3"], 1) == "| x |\n| --- |\n| 1 |\n\n…and 2 more, left out here"


def test_text_from_outside_is_one_line_of_text_in_its_own_direction() -> None:
    assert plain("a\nb | <c> \u202eevil\u2066") == "a b &#124; &#60;c&#62; evil"


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
