from __future__ import annotations

import numpy as np
import pytest

from torchperf_ci.bisect.reasoning.evidence import BisectFacts, BisectQuestion, BuildAttempt, can_rebuild

SAME, OTHER = (BuildAttempt(4, ok=True, draw=1, repeated=same) for same in (True, False))


@pytest.mark.parametrize("rebuilds", [True, False])
@pytest.mark.parametrize(
    ("builds", "stay"),
    [
        ([OTHER], True),
        ([SAME], True),
        ([SAME, SAME, OTHER, SAME, SAME], True),
        ([OTHER, SAME, SAME, SAME], False),
        ([SAME, SAME, BuildAttempt(2, ok=True), BuildAttempt(4, ok=False, draw=7), SAME], False),
    ],
)
def test_once_three_rebuilds_in_a_row_came_out_the_same_nothing_is_built_anew(
    rebuilds: bool, builds: list[BuildAttempt], stay: bool
) -> None:
    question = BisectQuestion(np.full(4, 1 / 4), ["p"], 0.03, rebuilds=rebuilds)
    facts = BisectFacts((), (BuildAttempt(0, ok=True), *builds))
    assert can_rebuild(question, facts) == (rebuilds and stay)
