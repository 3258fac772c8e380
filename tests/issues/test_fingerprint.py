from __future__ import annotations

import re

import pytest

from torchperf_ci.issues.findings import cause_fingerprint


def test_it_is_the_same_for_ever() -> None:
    assert cause_fingerprint("culprit", "a" * 40, "worse") == "f3b1cb6b7e728f52", (
        "issues out there are found by it"
    )


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (("culprit", "a"), ("culprit", "b")),
        (("culprit", "a"), ("unlocated", "a")),
        (("broken", "ab", "c"), ("broken", "a", "bc")),
        (("broken", "a", ""), ("broken", "a")),
    ],
)
def test_another_cause_has_another_name(one, other) -> None:
    assert cause_fingerprint(*one) != cause_fingerprint(*other)
    assert re.fullmatch("[0-9a-f]{16}", cause_fingerprint(*one))
