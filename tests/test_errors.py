from __future__ import annotations

import pytest

from torchperf_ci.errors import UnknownNameError, UsageError, failing_as


@pytest.mark.parametrize(
    ("name", "known", "told"),
    [
        ("mian", ["main", "other"], "did you mean main?"),
        ("xyz", ["main", "other"], "known: main, other"),
        ("--workload", ["--threads", "--repo", "--mode"], "known: --mode, --repo, --threads"),
        ("cort", ["core", "core"], "did you mean core?"),
        ("case", [f"case{number}" for number in range(200)], "did you mean case9 or case8 or case7?"),
        ("xyz", [f"case{number}" for number in range(200)], "there are 200; `torchperf list` lists them"),
    ],
)
def test_at_most_a_few_names_are_told(name: str, known: list[str], told: str) -> None:
    assert str(UnknownNameError("thing", name, known, "torchperf list")) == f"unknown thing {name!r}: {told}"


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (FileNotFoundError(2, "No such file or directory", "secret/path"), "No such file or directory"),
        (OSError("no number of the system's"), "no number of the system's"),
        (TimeoutError(), "TimeoutError"),
    ],
)
def test_a_refusal_is_told_in_the_words_of_who_refuses(error: OSError, told: str) -> None:
    with pytest.raises(UsageError) as raised, failing_as(UsageError, "x: ", "; try again"):
        raise error
    assert str(raised.value) == f"x: {told}; try again"
    assert raised.value.__cause__ is error


def test_other_errors_than_the_expected_ones_stay_what_they_are() -> None:
    with pytest.raises(ValueError, match="other"), failing_as(UsageError, of=(KeyError, OSError)):
        raise ValueError("other")
