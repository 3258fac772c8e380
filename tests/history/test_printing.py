"""The terminal output for many changes, and for unusual names."""

from __future__ import annotations

import io
import re

import pytest
from made_points import noisy, point, row, series

from torchperf_ci import console
from torchperf_ci.config import default_policy
from torchperf_ci.history import history_document, history_headline
from torchperf_ci.series.policy import rule_of_metric
from torchperf_ci.series.segmenting import segment_all

CHANGES = {"small": (10.5, 0), "large": (8, 0), "late": (10.5, 3)}


def _histories(points):
    return segment_all(points, lambda name, _: rule_of_metric(name.metric, default_policy()))


def shown(points, most: int = 100) -> list[str]:
    out = io.StringIO()
    histories = _histories(points)
    console.print_document(history_document(histories), out, rest="all of them with --json", most=most)
    return out.getvalue().splitlines()


def step(new: float, first: int = 0):
    return row([*noisy(10, 20), *noisy(new, 20, seed=1)], first)


def test_the_largest_of_one_night_comes_first_and_a_later_night_before() -> None:
    found = shown({series(model=name): step(*how) for name, how in CHANGES.items()})
    assert [next(name for name in CHANGES if name in line) for line in found[1:]] == [
        "late",
        "large",
        "small",
    ]


def test_a_long_table_ends_and_says_so() -> None:
    found = shown({series(model=f"model{number}"): step(11) for number in range(5)}, most=2)
    assert len(found) == 1 + 2 + 1
    assert found[-1] == "and 3 more, all of them with --json"


def test_names_are_only_text() -> None:
    header, line = shown({series(model="[red]x[/red]\n::error::y\x1b[2J"): step(11)})
    assert "[red]x[/red]" in line
    assert "\x1b" not in line
    assert "verdict" in header


def test_the_levels_differ_by_the_change_and_are_whole_numbers_if_large() -> None:
    """The medians may differ by another share, as where the new level has two modes."""
    modes = [value for both in zip(noisy(1.2e6, 11), noisy(1.5e6, 11), strict=True) for value in both]
    _, line = shown({series(): row([*noisy(1e6, 20), *modes])})
    found = re.search(r"([\d,]+) → ([\d,]+) +\+([\d.]+)%", line)
    assert found
    old, new, change = (float(number.replace(",", "")) for number in found.groups())
    assert new / old - 1 == pytest.approx(change / 100, abs=6e-4)


def test_an_outcome_is_shown_in_words() -> None:
    words = ["pass"] * 6 + ["oom"] * 3
    points = [point(float(word == "pass"), day, info={"status": word}) for day, word in enumerate(words)]
    _, line = shown({series("status"): points})
    assert "pass → oom" in line


def test_a_change_between_two_runs_of_one_commit_says_so() -> None:
    """Such as another attempt of a run: no commit lies between, and a range of one to itself looks like one."""
    points = [point._replace(commit="1f" * 20) for point in step(11)]
    _, line = shown({series(): points})
    assert "both 1f1f1f1f1f" in line


def test_series_that_are_too_short_are_counted() -> None:
    points = {
        series(): row(noisy(10, 40)),
        series(model="young"): row(noisy(10, 9)),
        series("status"): row([1.0] * 9),
    }
    said = history_headline(_histories(points))
    assert said == "0 changes in 0 of 3 series; 1 series of fewer than 10 runs could not show any"


def test_where_nothing_changed_nothing_is_printed() -> None:
    assert shown({series(): row(noisy(10, 40))}) == []
    assert history_headline([]) == "there are no results to analyze: see --branch and --since"
