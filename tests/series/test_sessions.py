from __future__ import annotations

import pytest
from made_points import point

from torchperf_ci.series.run_matrix import SESSION_GAP, sessions_of

NEW, OLD = "1" * 40, "2" * 40


def sessions(*runs: tuple[str, int]) -> list[int]:
    """Those of runs of these commits at these seconds, a run each."""
    made = [
        point(1.0, 0, commit=commit, timestamp=time, run=f"run{number}")
        for number, (commit, time) in enumerate(runs)
    ]
    return list(sessions_of(made).values())


@pytest.mark.parametrize(
    ("runs", "expected"),
    [
        ([(OLD, 1000), (OLD, 1060), (OLD, 1060 + SESSION_GAP)], [0, 0, 1]),
        ([(OLD, 1000), (NEW, 1060)], [0, 1]),
        ([(OLD, 1000), (NEW, 1060), (OLD, 1120)], [0, 1, 0]),
        ([(OLD, 0), (OLD, 0), (NEW, 0)], [0, 0, 1]),
        ([(OLD, 1000), (OLD, 0), (OLD, 0)], [0, 1, 1]),
    ],
    ids=["near and far", "other commits", "in turn", "of unknown time", "fresh records"],
)
def test_a_session_is_what_was_measured_of_one_commit_at_once(runs, expected) -> None:
    assert sessions(*runs) == expected


def test_the_builds_of_torch_are_commits_too() -> None:
    made = [point(1.0, 0, timestamp=1000, run=torch, info={"torch": torch}) for torch in (OLD, NEW)]
    assert sessions_of(made) == {OLD: 0, NEW: 1}
