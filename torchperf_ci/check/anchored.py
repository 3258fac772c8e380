"""An anchored series speaks for the absolute ones of its case: it is quieter, and one change needs one proof."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING

from torchperf_ci.check.comparable import charted
from torchperf_ci.metrics import ANCHORED, SPEEDS, UP
from torchperf_ci.stats.effect import Effect
from torchperf_ci.stats.past import MIN_HISTORY

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from torchperf_ci.check.comparable import Pairing
    from torchperf_ci.series.policy import MetricRule
    from torchperf_ci.series.series import Series
    from torchperf_ci.verdicts.verdict import Verdict


def spoken_for(pairings: Iterable[Pairing]) -> set[Series]:
    """The series that take no part in the judgement themselves, since the anchored one of their case can be judged."""
    anchored = (one for one in pairings if one.series.metric == ANCHORED)
    speaking = {one.series.case for one in anchored if len({point.run for point in one.old}) >= MIN_HISTORY}
    return {replace(case, metric=metric) for case in speaking for metric in SPEEDS}


def followed(
    pairings: Iterable[Pairing], verdicts: Iterable[Verdict], rules: Mapping[Series, MetricRule]
) -> Sequence[Verdict]:
    """The verdicts on series that are spoken for, also where their own past is another machine's."""
    speaking = {verdict.series.case: verdict for verdict in verdicts if verdict.series.metric == ANCHORED}
    return [_following(one, speaking[one.series.case], rules[one.series]) for one in pairings]


def _following(pairing: Pairing, anchored: Verdict, rule: MetricRule) -> Verdict:
    return replace(
        anchored,
        series=pairing.series,
        why=f"the anchored series speaks for it: {anchored.why}",
        effect=_inverted(anchored.effect) if rule.direction == UP else anchored.effect,
        old=pairing.old[-1].value if pairing.old else None,
        new=pairing.newest.value,
        evidence={
            **anchored.evidence,
            **({"points": charted(pairing)} if "points" in anchored.evidence else {}),
        },
    )


def _inverted(effect: Effect | None) -> Effect | None:
    """The effect on a throughput, from that on a latency."""
    if effect is None:
        return None
    return Effect(1 / effect.ratio, 1 / effect.high, 1 / effect.low if effect.low else inf, effect.pairs)
