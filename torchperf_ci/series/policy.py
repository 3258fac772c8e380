"""When a change of a metric matters: which way is better, from what size on, and how it is compared.

The direction is never guessed from numbers. It comes from the project's configuration, else from the table here, else
from the record's target; a metric that none of them knows is judged both ways, and no change of it is a regression.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Literal

from torchperf_ci.config import DIRECTIONS, DOWN, UP

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torchperf_ci import config

Kind = Literal["ratio", "count", "outcome", "amount"]
"""``ratio``: by its relative change. ``count``: whole numbers that are the same each time, any increase counts.
``outcome``: pass or fail. ``amount``: by the difference, since it may be zero or negative."""

MIN_EFFECT = 0.03

_KINDS: Mapping[Kind, str] = {
    "outcome": r"status|accuracy",
    "count": r"graph_breaks?|recompiles?|recompilations?",
    "amount": r"memory_leak",
}
# Whole words of a metric's name. What is better upwards comes first: memory bandwidth is no memory.
_BETTER: Mapping[str, str] = {
    UP: (
        r"throughput|bandwidth|gbps|[gt]?flops|flops_utilization|mfu|hfu|speedup|compression_ratio|pass_?rate|qps|rps|"
        r"tps|(tokens?|samples?|requests?|images?|iterations?|steps?)_per_sec(ond)?s?|(free|available)_mem(ory)?|"
        r"status|accuracy"
    ),
    DOWN: (
        r"latency|time|runtime|duration|ttft|tpot|itl|e2el|memory|mem|memory_leak|instruction_count|"
        r"graph_breaks?|recompiles?|recompilations?"
    ),
}
_SIGNED = r"delta|diff(erence)?|change|overhead|pass_?rate"
"""Words of what may be zero, whatever else its name says."""


@dataclass(frozen=True)
class Rule:
    """``direction`` is ``up`` or ``down``, whichever is better, or empty where nobody knows: then nothing is red.

    ``min_effect`` is the smallest relative change that matters, 0.03 for 3%.
    """

    direction: str
    min_effect: float
    kind: Kind

    @property
    def worse(self) -> int:
        """1 where up is worse, -1 where down is, 0 where nobody knows."""
        return {DOWN: 1, UP: -1}.get(self.direction, 0)


def rule(
    metric: str, policy: Mapping[str, config.Rule], target: float = 0.0, level: float | None = None
) -> Rule:
    """The rule of a metric. ``policy`` is the configuration's, by the metric's whole name.

    A ``target`` other than 0 tells the direction from where the metric was, its ``level``, where nothing else does.
    """
    given = policy.get(metric)
    name = _words(metric)
    direction = (given.direction if given else "") or DIRECTIONS.get(metric, "") or _known(name)
    return Rule(
        direction or _towards(target, level),
        given.min_effect if given else MIN_EFFECT,
        next((kind for kind, words in _KINDS.items() if _has(words, name)), "ratio"),
    )


@lru_cache(maxsize=1024)
def is_positive(metric: str) -> bool:
    """Whether the metric is positive by nature, such as a latency or a size: what the table knows as a ratio.

    A share in percent may be one of a change, which may be none.
    """
    name = _words(metric)
    known = metric in DIRECTIONS or _known(name)
    return (
        bool(known)
        and "%" not in metric
        and not any(_has(words, name) for words in (*_KINDS.values(), _SIGNED))
    )


def _known(name: str) -> str:
    return next((direction for direction, words in _BETTER.items() if _has(words, name)), "")


def _towards(target: float, level: float | None) -> str:
    if not target or level is None or target == level:
        return ""
    return UP if target > level else DOWN


def _has(words: str, name: str) -> bool:
    return re.search(rf"(?:^|_)(?:{words})(?:_|$)", name) is not None


def _words(metric: str) -> str:
    """The name as lower-case words with underscores between them, without the unit in parentheses or at its end."""
    name = re.sub(r"\s*\([^)]*\)\s*$", "", metric).strip().lower()
    return re.sub(r"[^a-z0-9]+", "_", name)
