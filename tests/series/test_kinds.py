from __future__ import annotations

import pytest
from made_points import row

from torchperf_ci.series.kinds import suited
from torchperf_ci.series.policy import Kind, rule


@pytest.mark.parametrize(
    ("metric", "values", "kind"),
    [
        ("accuracy", [1.0, 0.0, 1.0], "outcome"),
        ("accuracy", [0.78, 0.77, 1.0], "ratio"),
        ("accuracy", [None, None], "outcome"),
        ("score", [3.0, 4.0], "ratio"),
        ("score", [3.0, 0.0, 4.0], "ratio"),
        ("score", [-5.0, -4.0], "amount"),
        ("score", [0.0, 0.0], "amount"),
        ("graph_breaks", [0.0, 0.0], "count"),
        ("score", [], "ratio"),
    ],
)
def test_the_values_tell_what_the_name_does_not(metric: str, values: list[float | None], kind: Kind) -> None:
    assert suited(rule(metric, {}), row(values)).kind == kind


def test_the_new_values_tell_of_an_outcome_and_not_of_the_level() -> None:
    assert suited(rule("accuracy", {}), row([1.0]), row([0.7])).kind == "ratio"
    assert suited(rule("score", {}), row([3.0]), row([-1.0] * 3)).kind == "ratio"
