from __future__ import annotations

from typing import Any

import pytest
from made_points import series

from torchperf_ci.verdicts.ranges import range_of
from torchperf_ci.verdicts.verdict import Verdict

A, B, C, D = (letter * 40 for letter in "abcd")


def verdict(old: Any, new: Any) -> Verdict:
    return Verdict(series(), "regressed", "", evidence={"last_old": old, "first_new": new})


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        ({"commit": A, "torch": C}, {"commit": B, "torch": D}, (A, B)),
        ({"commit": A, "torch": C}, {"torch": D}, (C, D)),
        ({"commit": A, "torch": C}, {"commit": A, "torch": D}, (C, D)),
        ({"commit": A}, {"commit": A}, None),
        ({"commit": A}, {}, None),
        ({"commit": A}, None, None),
        (None, {"commit": B}, None),
        ({"commit": A}, {"commit": "main; rm -rf /"}, None),
        ({"commit": A}, {"commit": f"{B}\n"}, None),
        ({"commit": A}, {"commit": "--help"}, None),
        ({"commit": A}, {"commit": 7}, None),
        ("abcdefabcdef", ["commit"], None),
    ],
)
def test_the_range_is_what_both_ends_name(old: Any, new: Any, found: tuple[str, str] | None) -> None:
    assert range_of(verdict(old, new)) == found


def test_no_evidence_names_no_range() -> None:
    assert range_of(Verdict(series(), "regressed", "")) is None
