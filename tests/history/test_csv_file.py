"""The CSV files that are accepted, and the errors for others."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from torchperf_ci.errors import RecordsError
from torchperf_ci.history import points_of_csv

if TYPE_CHECKING:
    from pathlib import Path


def values(path: Path, text: str) -> list[tuple[str, float | None]]:
    file = path / "series.csv"
    file.write_bytes(text.encode())
    return [(point.run, point.value) for point in points_of_csv(file)]


@pytest.mark.parametrize(
    "text",
    [
        "index,value\n7,1.5\n8,2\n",
        "7,1.5\n8,2\n",
        "\ufeffindex,value\r\n7,1.5\r\n\r\n8,2",
        ' build , "ms"\n"7", "1.5"\n 8 , 2e0 \n',
    ],
)
def test_a_header_spaces_quotes_and_line_ends_make_no_difference(tmp_path: Path, text: str) -> None:
    assert values(tmp_path, text) == [("7", 1.5), ("8", 2.0)]


def test_a_run_without_a_number_keeps_its_place(tmp_path: Path) -> None:
    assert values(tmp_path, "a,1\nb,\nc,nan\nd,2\n") == [("a", 1.0), ("b", None), ("c", None), ("d", 2.0)]


@pytest.mark.parametrize("text", ["", "index,value\n", "\n\n"])
def test_a_file_without_a_value_is_told(tmp_path: Path, text: str) -> None:
    with pytest.raises(RecordsError, match=r"series\.csv: no line has a value"):
        values(tmp_path, text)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("index,value\n1,2\n2,fast\n", r"series.csv:3: 'fast' is not a positive number"),
        ("1,2\nindex,value\n", r"series.csv:2: 'value' is not a positive number"),
        ("1,0\n", r"series.csv:1: '0' is not a positive number"),
        ("1,-3\n", r"series.csv:1: '-3' is not a positive number"),
        ("1,inf\n", r"series.csv:1: 'inf' is not a positive number"),
        ("1,2\n\n3,4,5\n", r"series.csv:3: is not `index,value`, two columns"),
        ("1;2\n", r"series.csv:1: is not `index,value`, two columns with a comma"),
        ("1;1,5\n2;1,7\n", r"series.csv:1: is not `index,value`"),
        ("1\t1,5\n2\t1,7\n", r"series.csv:1: is not `index,value`"),
        ('1,"2\n', r"series.csv: cannot be read as CSV"),
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(RecordsError, match=said):
        values(tmp_path, text)


def test_a_file_that_is_no_text_or_not_there_is_named(tmp_path: Path) -> None:
    (tmp_path / "image.csv").write_bytes(b"\x89PNG\xff\xfe")
    with pytest.raises(RecordsError, match=r"image\.csv: cannot be read as CSV"):
        points_of_csv(tmp_path / "image.csv")
    with pytest.raises(RecordsError, match=r"missing\.csv: cannot be read as CSV: No such file"):
        points_of_csv(tmp_path / "missing.csv")
