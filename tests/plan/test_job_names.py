from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchperf_ci.plan.jobs import MAX_NAME_LENGTH, unique_name


@pytest.mark.parametrize(
    ("parts", "name"),
    [
        (("h100", "core", "1-of-4"), "h100-core-1-of-4"),
        (("linux.aws.h100", "my suite"), "linux.aws.h100-my-suite"),
        (("../../etc", "passwd"), "etc-passwd"),
        (("--help", "$(id)"), "help-id"),
        (("a\nb", 'c"d'), "a-b-c-d"),
        (("机器", "套件"), "job"),
        (("x" * 300, "core"), "x" * MAX_NAME_LENGTH),
    ],
)
def test_a_name_has_safe_characters_only(parts: tuple[str, ...], name: str) -> None:
    assert unique_name(set(), *parts) == name


def test_two_that_would_be_called_alike_get_numbers() -> None:
    taken: set[str] = set()
    wanted = [("a", "b-c"), ("a-b", "c"), ("A", "B-C"), ("a-b-c", "2")]
    assert [unique_name(taken, *parts) for parts in wanted] == ["a-b-c", "a-b-c-2", "A-B-C-3", "a-b-c-2-2"]


@given(st.lists(st.tuples(st.text(), st.text()), max_size=30))
def test_names_are_safe_and_unlike_on_every_file_system(wanted: list[tuple[str, str]]) -> None:
    taken: set[str] = set()
    given_out = [unique_name(taken, *parts) for parts in wanted]
    assert all(re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]*", name, re.ASCII) for name in given_out)
    assert len({name.lower() for name in given_out}) == len(wanted)
    assert all(len(name) < MAX_NAME_LENGTH + 10 for name in given_out)
