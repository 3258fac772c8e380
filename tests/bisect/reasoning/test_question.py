from __future__ import annotations

import numpy as np
import pytest

from torchperf_ci.bisect.reasoning.evidence import (
    BisectFacts,
    BisectQuestion,
    BuildAttempt,
    with_known_rebuilds,
)


@pytest.mark.parametrize("rebuilds", [True, False])
def test_once_a_build_came_out_the_same_nothing_is_built_anew(rebuilds: bool) -> None:
    question = BisectQuestion(np.full(4, 1 / 4), ["p"], 0.03, rebuilds=rebuilds)
    builds = (BuildAttempt(0, ok=True), BuildAttempt(0, ok=True, draw=1))
    assert with_known_rebuilds(question, BisectFacts((), builds)) == question
    repeated = BisectFacts((), (*builds, BuildAttempt(4, ok=True, draw=1, repeated=True)))
    assert not with_known_rebuilds(question, repeated).rebuilds
