from __future__ import annotations

from torchperf_ci.document import counted


def test_one_is_no_plural() -> None:
    assert [counted(number, "case") for number in (0, 1, 2)] == ["0 cases", "1 case", "2 cases"]
    assert counted(2, "process", "processes") == "2 processes"
