"""Bisections and comparisons that measure one pair of each two builds; tests/test_console_blocks.py measures all."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import TYPE_CHECKING

from torchperf_ci.bench.pairs import Pair

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from torchperf_ci.bench.case import Case, Settings


def repeating(measure: Callable[..., Pair]) -> Callable[..., Pair]:
    """Measure the first pair of two builds. The others are that one with noise, or noise alone if it is one build."""
    noise = itertools.cycle([0.001, -0.001, 0.002])
    known: dict[tuple[object, ...], Pair] = {}

    def pair(
        case: Case,
        base: Settings,
        head: Settings,
        scratch: Path,
        *started: object,
        head_first: bool,
        **how: bool,
    ) -> Pair:
        if base.path == head.path:
            return Pair((next(noise),), 1e-3, 1e-3)
        kind = (str(case), *base.path, *head.path)
        if kind not in known:
            known[kind] = measure(case, base, head, scratch, *started, head_first=head_first, **how)
        first = known[kind]
        return replace(first, log_ratios=(first.log_ratio + next(noise),))

    return pair
