from __future__ import annotations

import pytest

from torchperf_ci.document import Commands, Document
from torchperf_ci.markdown import fitted, size, to_markdown


@pytest.mark.parametrize(("room", "rows"), [(0, None), (1, 0), (3, 1), (4, 1), (7, 3), (99, 5)])
def test_as_much_as_has_room(room: int, rows: int | None) -> None:
    text = fitted(lambda rows: "x" + "é" * rows, room, 5)
    assert text == (None if rows is None else "x" + "é" * rows)
    assert text is None or size(text) <= room


@pytest.mark.parametrize(("workloads", "is_shown"), [(100, True), (200, False)])
def test_a_command_is_shown_whole_or_not_at_all(workloads: int, is_shown: bool) -> None:
    """Of a bisection of a hundred workloads, the options behind them were cut off."""
    names = " ".join(f"transformers/bert-{number:05}" for number in range(workloads))
    command = f"torchperf bisect --workload {names} --suite suite.py"
    text = to_markdown(Document("", [Commands(["cd ci", command])]))
    assert text.startswith("    cd ci\n")
    assert (f"    {command}\n" in text) == is_shown
    assert ("    # This command is too long to be shown here: it is in the files.\n" in text) != is_shown
