from __future__ import annotations

from math import inf, nan
from typing import Any

import pytest

from torchperf_ci.verdicts.verdict import CommitRange, Evidence, RangeEnd, commit_ends_of, evidence_of

A, B, C, D = (letter * 40 for letter in "abcd")


def turn(old: Any, new: Any) -> CommitRange:
    return evidence_of({"last_old": old, "first_new": new}).commits


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        ({"commit": A, "torch": C}, {"commit": B, "torch": D}, [(A, B), (C, D)]),
        ({"commit": A, "torch": C}, {"torch": D}, [(C, D)]),
        ({"commit": A, "torch": C}, {"commit": A, "torch": D}, [(C, D)]),
        ({"commit": A, "torch": A}, {"commit": B, "torch": B}, [(A, B)]),
        ({"commit": A}, {"commit": A}, []),
        ({"commit": A}, {}, []),
        ({"commit": A}, None, []),
        (None, {"commit": B}, []),
        ({"commit": A}, {"commit": "main; rm -rf /"}, []),
        ({"commit": A}, {"commit": f"{B}\n"}, []),
        ({"commit": A}, {"commit": "--upload-pack=x"}, []),
        ({"commit": A}, {"commit": 7}, []),
        ({"commit": A}, {"commit": {"sha": B}}, []),
        ("abcdefabcdef", ["commit"], []),
    ],
)
def test_a_range_is_what_both_ends_name(old: Any, new: Any, found: list[tuple[str, str]]) -> None:
    assert list(commit_ends_of([turn(old, new)])) == found
    assert turn(old, new).range == (found[0] if found else None)
    assert turn(old, new).in_measuring_repository == ((A, B) if (A, B) in found else None)


def test_levels_without_a_commit_are_not_of_the_same_one() -> None:
    assert turn({"commit": A}, {"commit": A}).is_one_commit
    assert not turn(None, None).is_one_commit


def test_no_evidence_names_no_range() -> None:
    assert evidence_of({}) == Evidence(CommitRange(RangeEnd(), RangeEnd()))


def test_several_turns_give_the_range_that_holds_them_all() -> None:
    turns = [
        turn({"commit": C, "timestamp": 20}, {"commit": D, "timestamp": 30}),
        turn({"commit": A, "timestamp": 10}, {"commit": B, "timestamp": 15}),
        turn({"commit": "0" * 40}, {"torch": "9" * 40, "timestamp": 90}),
    ]
    assert commit_ends_of(turns) == ((A, D),)
    assert commit_ends_of([]) == ()


@pytest.mark.parametrize("when", ["soon", None, True, -1, nan, inf, [1]])
def test_a_point_without_a_time_still_counts(when: Any) -> None:
    found = turn({"commit": A, "timestamp": when}, {"commit": B, "timestamp": when})
    assert (found.range, found.last_old.timestamp) == ((A, B), 0)


def test_the_same_commits_are_one_turn_whenever_each_series_was_measured() -> None:
    early, late = (
        turn({"commit": A, "timestamp": when}, {"commit": B, "timestamp": when + 5}) for when in (1, 2)
    )
    assert len({early, late}) == 1
