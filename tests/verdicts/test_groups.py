from __future__ import annotations

from typing import TYPE_CHECKING

from torchperf_ci.stats.effect import Effect
from torchperf_ci.verdicts.headline import count_verdicts, grouped

if TYPE_CHECKING:
    from collections.abc import Callable

    from torchperf_ci.verdicts.verdict import Verdict


def test_a_candidate_is_counted_as_that_unless_it_is_proven(verdict: Callable[..., Verdict]) -> None:
    found = [verdict("noisy", candidate=True), verdict("unchanged", candidate=True)]
    assert count_verdicts(found) == "2 look worse but are unproven"
    assert count_verdicts([verdict("regressed", candidate=True)]) == "1 regressed"
    assert count_verdicts([]) == ""


def test_the_largest_change_of_a_group_comes_first(verdict: Callable[..., Verdict]) -> None:
    ratios = {"small": 1.02, "halved": 0.5, "large": 1.3, "nothing": 0.0}
    found = [verdict("regressed", name, effect=Effect(r, r, r, 6)) for name, r in ratios.items()]
    found += [verdict("regressed", f"{breaks} breaks", old=0.0, new=breaks) for breaks in (1, 50)]
    names = [each.series.model for each in grouped([verdict("regressed", "unknown"), *found])["regressed"]]
    assert names == ["nothing", "halved", "large", "small", "50 breaks", "1 breaks", "unknown"]
