from __future__ import annotations

import numpy as np
import pytest

from torchperf_ci.bisect.reasoning.facts import Build, Facts
from torchperf_ci.bisect.reasoning.question import Question, as_known


@pytest.mark.parametrize("rebuilds", [True, False])
def test_once_a_build_came_out_the_same_nothing_is_built_anew(rebuilds: bool) -> None:
    question = Question(np.full(4, 1 / 4), ["p"], 0.03, rebuilds=rebuilds)
    builds = (Build(0, ok=True), Build(0, ok=True, draw=1))
    assert as_known(question, Facts((), builds)) == question
    repeated = Facts((), (*builds, Build(4, ok=True, draw=1, repeated=True)))
    assert not as_known(question, repeated).rebuilds
