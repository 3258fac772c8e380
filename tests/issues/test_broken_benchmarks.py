from __future__ import annotations

from desk import Desk
from nights import judged, outcome


def test_it_takes_some_nights(desk: Desk) -> None:
    found = [desk.night(day, judged(outcome("bert", day))) for day in (1, 2, 3, 4)]
    assert found == [[], [], ["open 1"], []]
    assert desk.issues[1].memory.kind == "broken"


def test_it_is_over_when_it_passes(desk: Desk) -> None:
    desk.night(3, judged(outcome("bert", 3)))
    found = [desk.night(day, judged(outcome("bert", 0))) for day in (4, 5, 6)]
    assert found == [[], [], ["recover 1"]]
    assert desk.night(9, judged(outcome("bert", 3))) == ["reopen 1"]


def test_it_is_not_over_while_one_device_fails() -> None:
    desk = Desk(recovered_nights=1)
    desk.night(3, judged(outcome("bert", 3), outcome("bert", 3, "cpu")))
    assert desk.night(4, judged(outcome("bert", 0), outcome("bert", 1, "cpu"))) == []
    assert desk.night(5, judged(outcome("bert", 0), outcome("bert", 0, "cpu"))) == ["recover 1"]
