from __future__ import annotations

import pytest

from torchperf_ci.document import counted, day_of


def test_one_is_no_plural() -> None:
    assert [counted(number, "case") for number in (0, 1, 2)] == ["0 cases", "1 case", "2 cases"]
    assert counted(2, "process", "processes") == "2 processes"


@pytest.mark.parametrize("unknown", [0, -1, 253_402_300_800, 1e300])
def test_a_time_that_has_no_day_is_no_text(unknown: float) -> None:
    assert day_of(unknown) == ""


def test_the_day_of_a_time_is_that_of_utc() -> None:
    assert [day_of(time) for time in (1, 1_795_305_599, 1_795_305_600)] == [
        "1970-01-01",
        "2026-11-21",
        "2026-11-22",
    ]
