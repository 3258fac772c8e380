"""The commits between which a change lies, whichever window of runs proves it."""

from __future__ import annotations

import pytest
from made_points import noisy, row
from made_verdicts import LATENCY, judged, one


def test_the_evidence_names_the_commits_around_the_change() -> None:
    verdict = one(noisy(10, 30), [11.0, 11.1, 10.9])
    assert verdict.evidence.commits.last_old.commit == f"{29:040d}"
    assert verdict.evidence.commits.first_new.commit == f"{30:040d}"
    assert verdict.evidence.others["window"] == 3
    assert verdict.evidence.others["history"] == 30
    assert verdict.evidence.others["false_discovery_rate"] < 0.01


@pytest.mark.parametrize("nights", range(3, 10))
@pytest.mark.parametrize("metric", ["latency(ms)", "memory_leak(KiB/iter)"])
def test_every_later_night_names_the_same_commits(nights: int, metric: str) -> None:
    """Whichever window proves it: a bisection between other commits would look where nothing has changed."""
    slow = [11.0, 11.1, 10.9, 11.2, 10.8, 11.0, 11.1, 10.9, 11.0][:nights]
    verdict = one([*noisy(10, 30), *slow[:-1]], slow[-1:], metric)
    assert verdict.verdict == "regressed"
    assert verdict.evidence.commits.last_old.commit == f"{29:040d}"
    assert verdict.evidence.commits.first_new.commit == f"{30:040d}"


@pytest.mark.parametrize(("before", "new"), [(0, 6), (0, 60), (5, 10)])
def test_many_new_runs_at_once_name_no_commit_that_was_slow_already_as_the_last_one_before(
    before: int, new: int
) -> None:
    """Only the last of them are judged, and the runs since the change are counted among these and the past."""
    verdict = one([*noisy(10, 30), *noisy(11, before, seed=1)], noisy(11, new, seed=2))
    assert verdict.verdict == "regressed"
    assert verdict.evidence.commits.last_old.commit == f"{29:040d}"


def test_what_remains_of_a_larger_change_lies_after_it() -> None:
    """It is not that change: the issue about it would stay open as if nothing had been mended."""
    verdict = one([*noisy(10, 30), 40.0, 41.0], [11.0])
    assert verdict.candidate
    assert verdict.evidence.commits.last_old.commit == f"{31:040d}"
    assert verdict.evidence.commits.first_new.commit == f"{32:040d}"


def test_a_change_without_another_commit_says_that_something_else_changed() -> None:
    points = row([*noisy(10, 30), 11.0, 11.1, 10.9], commit="c" * 40)
    verdict = judged({LATENCY: points[:-1]}, {LATENCY: points[-1:]})[LATENCY.metric]
    assert verdict.verdict == "regressed"
    assert verdict.why.endswith("; both levels are of the same commit, so something else changed")
    verdict = judged({LATENCY: points[:-3]}, {LATENCY: points[-3:-2]})[LATENCY.metric]
    assert verdict.candidate
    assert verdict.why.endswith(
        "so measure again; both levels are of the same commit, so it would not be the cause"
    )
