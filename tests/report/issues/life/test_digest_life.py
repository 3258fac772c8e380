from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from desk import Desk
from nights import GOOD, judged, measured, regressed, series

from torchperf_ci.report.issues.life.overflow import FINGERPRINT

if TYPE_CHECKING:
    from torchperf_ci.verdicts.verdict import Judgement


MANY = [series(f"model {number}") for number in range(4)]


@pytest.fixture
def desk() -> Desk:
    """The two largest of four have an issue, the other two the digest."""
    desk = Desk(max_per_night=2, recovered_nights=1)
    assert desk.night(1, slow(1.05, 1.4, 1.2, 1.1)) == ["open 1", "open 2", "open 3"]
    return desk


def slow(*levels: float) -> Judgement:
    """Each in a range of its own."""
    ends = [(GOOD, f"{number}" * 40) for number in range(4)]
    pairs = zip(MANY, levels, ends, strict=True)
    return judged(
        *(regressed(of, level, ends=end) if level > 1 else measured(of) for of, level, end in pairs)
    )


def test_the_largest_come_first_and_the_rest_is_in_one_digest(desk: Desk) -> None:
    found = [[row.series.model for row in issue.memory.rows] for issue in desk.open]
    assert found == [["model 1"], ["model 2"], ["model 3", "model 0"]]
    assert desk.issues[3].memory.fingerprints == (FINGERPRINT,)


def test_the_next_night_has_room(desk: Desk) -> None:
    found = desk.night(2, slow(1.05, 1.4, 1.2, 1.1))
    assert found == ["open 4", "open 5", "recover 3"]


def test_it_waits_in_the_digest_until_it_is_back(desk: Desk) -> None:
    """History may get used to it before there is room."""
    levels = dict(zip(MANY, (1.05, 1.4, 1.2, 1.1), strict=True))
    as_usual = judged(*(measured(of, level) for of, level in levels.items()))
    assert desk.night(2, as_usual) == []
    assert len(desk.issues[3].memory.rows) == 2
    assert "recover 3" in desk.night(3, slow(1, 1, 1, 1))


def test_the_digest_is_opened_again(desk: Desk) -> None:
    desk.night(2, slow(1, 1, 1, 1))
    assert not desk.issues[3].is_open
    others = [regressed(series(name), ends=(GOOD, name * 40)) for name in "abc"]
    assert desk.night(3, judged(*others)) == ["open 4", "open 5", "reopen 3"]


def test_a_digest_that_somebody_closed_opens_for_news_only() -> None:
    desk = Desk(max_per_night=0)
    assert desk.night(1, slow(1.05, 1, 1, 1)) == ["open 1"]
    desk.change(1, is_open=False)
    assert desk.night(2, slow(1.05, 1, 1, 1)) == []
    assert desk.night(3, slow(1.05, 1.4, 1, 1)) == ["reopen 1"]


def test_an_older_night_changes_nothing(desk: Desk) -> None:
    desk.night(5, slow(1.05, 1.4, 1.2, 1.1))
    before = dict(desk.issues)
    desk.night(4, judged(*(measured(of) for of in MANY)))
    assert desk.issues == before
