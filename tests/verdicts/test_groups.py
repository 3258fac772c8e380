from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from torchperf_ci.stats.effect import Effect
from torchperf_ci.verdicts.groups import grouped, headline, sign

if TYPE_CHECKING:
    from collections.abc import Callable

    from torchperf_ci.verdicts.verdict import Judgement, Verdict


def test_the_headline_counts_everything_once(judgement: Judgement) -> None:
    assert headline(judgement.verdicts) == (
        "2 regressed, 1 broken, 1 looks worse without proof yet, 1 improved, 1 fixed, 61 unchanged, "
        "2 could not be judged, 1 missing, 1 new"
    )
    assert headline([]) == "nothing was judged"


def test_a_candidate_is_counted_as_that_unless_it_is_proven(verdict: Callable[..., Verdict]) -> None:
    found = [verdict("noisy", candidate=True), verdict("unchanged", candidate=True)]
    assert headline(found) == "2 look worse without proof yet"
    assert headline([verdict("regressed", candidate=True)]) == "1 regressed"


def test_the_largest_change_of_a_group_comes_first(verdict: Callable[..., Verdict]) -> None:
    ratios = {"small": 1.02, "halved": 0.5, "large": 1.3, "nothing": 0.0}
    found = [verdict("regressed", name, effect=Effect(r, r, r, 6)) for name, r in ratios.items()]
    names = [each.series.model for each in grouped([*found, verdict("regressed", "unknown")])["regressed"]]
    assert names == ["nothing", "halved", "large", "small", "unknown"]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["regressed", "unchanged"], "❌"),
        (["broken"], "❌"),
        (["unchanged", "noisy", "missing"], "✅"),
        (["improved"], "✅"),
        (["noisy", "not-comparable"], "⚠️"),
        (["new"], "⚠️"),
        ([], "⚠️"),
    ],
)
def test_the_sign_is_red_doubtful_or_good(verdict: Callable[..., Verdict], words, expected) -> None:
    assert sign([verdict(word) for word in words]) == expected


def test_a_candidate_is_a_doubt(verdict: Callable[..., Verdict]) -> None:
    assert sign([verdict(), verdict(candidate=True)]) == "⚠️"
