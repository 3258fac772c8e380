"""The whole pipeline over several nights: from the plan to the issue and its later life."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

import pytest
from nightly_caller import MENDED, SLOW
from past_nights import remember, repeat

from torchperf_ci.culprits.culprit import read_culprits
from torchperf_ci.stats.gate import MIN_REPETITIONS
from torchperf_ci.verdicts.verdict import read_verdicts

if TYPE_CHECKING:
    from conftest import Nights, Told

# What is measured bears today's date, whatever night it is for.
NIGHTS = [f"{datetime.now(timezone.utc) + timedelta(days):%Y-%m-%d}" for days in range(4)]


@pytest.fixture(scope="module")
def first(nights: Nights) -> Told:
    """The night before which there is no past, and in which a kind of runner does not deliver."""
    return nights.night(NIGHTS[0], nights.commits[0])


@pytest.fixture(scope="module")
def slow(nights: Nights, first: Told) -> Told:
    """After six weeks of nights like the first, one in which something is slow since the commit before its own."""
    (measured,) = first.artifacts.glob("torchperf-records-*/torchperf-records-*/v3/*/*/*/*/*.json")
    remember(nights.runner.caller, measured.read_bytes(), nights.commits[0])
    return nights.night(NIGHTS[1], nights.commits[SLOW + 1], processes=MIN_REPETITIONS)


@pytest.fixture(scope="module")
def still_slow(nights: Nights, slow: Told) -> Told:
    """The night after it, before which somebody has measured once more: one process is enough then."""
    (measured,) = slow.artifacts.glob("torchperf-records-*/torchperf-records-*/v3/*/*/*/*/*.json")
    repeat(nights.runner.caller, measured.read_bytes(), nights.commits[SLOW + 1])
    return nights.night(NIGHTS[2], nights.commits[SLOW + 1])


@pytest.fixture(scope="module")
def mended(nights: Nights, still_slow: Told) -> Told:
    """The night after somebody has taken the slow commit back."""
    return nights.night(NIGHTS[3], nights.commits[MENDED])


def test_the_first_night_has_no_past_and_misses_a_runner(first: Told) -> None:
    # act gives all rows of a matrix the result of the worst.
    measured = {"measure-lost-narrow": "failure", "measure-small-narrow": "failure"}
    assert first.act.results == {"plan": "success", **measured, "check": "success", "report": "success"}, (
        first.act.log
    )
    assert [path.name for path in first.artifacts.glob("*records*")] == ["torchperf-records-small-narrow"]
    judgement = read_verdicts(first.artifacts / "torchperf-verdicts/verdicts.json")
    assert {verdict.verdict for verdict in judgement.verdicts} == {"new"}
    assert "lost-narrow: nothing was measured" in judgement.notes
    assert first.issues == []


def test_a_slow_commit_is_found_and_told(nights: Nights, slow: Told) -> None:
    assert slow.act.results == {
        "plan": "success",
        "measure-small-narrow": "success",
        "check": "failure",
        bisected(slow): "success",
        "report": "success",
    }, slow.act.log
    (culprits,) = slow.artifacts.glob("torchperf-culprits-*/*/culprits.json")
    (culprit,) = read_culprits(culprits).culprits
    assert culprit.commit == nights.commits[SLOW]
    (issue,) = slow.issues
    assert issue.state == "open"
    assert "smallnet/narrow" in issue.title
    assert "**Culprit: " + nights.commits[SLOW][:10] in issue.body
    assert slow.comments == []


def test_the_next_night_measures_no_pair_and_says_nothing_again(
    nights: Nights, slow: Told, still_slow: Told
) -> None:
    assert still_slow.act.results == slow.act.results, still_slow.act.log
    before, after = (
        path.read_text() for path in sorted(nights.caches.glob("torchperf-bisect-*/state.jsonl"))
    )
    assert after == before
    assert len(still_slow.issues) == 1
    assert still_slow.issues[0].title == slow.issues[0].title
    assert still_slow.comments == []


def test_when_it_is_mended_the_issue_is_closed(mended: Told) -> None:
    assert set(mended.act.results.values()) == {"success"}, mended.act.log
    (issue,) = mended.issues
    assert (issue.state, issue.state_reason) == ("closed", "completed")
    (comment,) = mended.comments
    assert NIGHTS[3] in comment


def bisected(night: Told) -> str:
    """The name of the one job that bisected."""
    (name,) = (job for job in night.act.results if job.startswith("bisect-"))
    return name
