"""Find what no schema can say: values that are no JSON, say two things at once, or are no text."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

from torchperf_ci.records.limits import checkpoint
from torchperf_ci.records.parsing import RepeatedKeys
from torchperf_ci.records.problems import Steps, excerpt

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_DEPTH = 200
"""Levels of nesting: more than any record needs, and far below what Python's JSON can do (about 1,000)."""

_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
_FLOAT_COLUMNS = {("metric", "benchmark_values"), ("metric", "target_value")}


def unsound(element: object) -> Iterator[tuple[Steps, str]]:
    """Yield every such place below a decoded value, with the reason. Deep nesting does not break it."""
    yield from (((), reason) for reason in _own_defects((), element))
    steps: list[str | int] = []
    levels = [_children(element)]  # one iterator a level: no list of all that is still to be seen
    while levels:
        checkpoint()
        child = next(levels[-1], None)
        if child is None:
            levels.pop()
            del steps[-1:]
            continue
        key, value = child
        if len(levels) > MAX_DEPTH:
            yield tuple(steps[:3]), f"is nested more than {MAX_DEPTH} levels deep"
            return
        if isinstance(value, dict | list | str | float):
            place = (*steps, key)
            yield from ((place, reason) for reason in _own_defects(place, value))
        if isinstance(value, dict | list):
            steps.append(key)
            levels.append(_children(value))


def _children(value: object) -> Iterator[tuple[str | int, object]]:
    if isinstance(value, dict):
        return iter(value.items())
    return iter(enumerate(value)) if isinstance(value, list) else iter(())


def _own_defects(steps: Steps, value: object) -> Iterator[str]:
    if isinstance(value, RepeatedKeys):
        yield f"the key {excerpt(value.repeated)} stands there more than once; keep the one that is meant"
    texts = value if isinstance(value, dict) else [value]
    if any(isinstance(text, str) and _LONE_SURROGATE.search(text) for text in texts):
        yield "holds bytes or escapes that are not valid Unicode text; write it as UTF-8"
    if isinstance(value, float) and not math.isfinite(value) and steps[:2] not in _FLOAT_COLUMNS:
        yield f"{excerpt(value)} is no JSON number; only benchmark_values and target_value may hold it"
