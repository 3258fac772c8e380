from __future__ import annotations

import pytest

from torchperf_ci.markdown import fitted, size


@pytest.mark.parametrize(("room", "rows"), [(0, None), (1, 0), (3, 1), (4, 1), (7, 3), (99, 5)])
def test_as_much_as_has_room(room: int, rows: int | None) -> None:
    text = fitted(lambda rows: "x" + "é" * rows, room, 5)
    assert text == (None if rows is None else "x" + "é" * rows)
    assert text is None or size(text) <= room
