"""Complete a record with what its uploader knows, without changing anything that it says itself."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from torchperf_ci.records.columns import changes, is_rounded

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from torchperf_ci.upload.metadata import Metadata

SYNTHETIC = "torchperf_job_id"
"""In ``benchmark.extra_info``: the value ``synthetic`` tells that ``job_id`` is none of GitHub's."""


@dataclass(frozen=True)
class Completion:
    """What is put under each record.

    ``runner`` describes the machine, and is asked only where a record does not. ``benchmark`` is the name that every
    benchmark gets instead of its own; where it is empty each keeps its own.
    """

    metadata: Metadata
    runner: Callable[[], Mapping[str, object]]
    benchmark: str = ""

    def complete(self, record: Mapping[str, Any], timestamp: int) -> dict[str, Any]:
        """The record as the table takes it. Its own values win, also an empty ``runners``; null says nothing."""
        own = {name: value for name, value in record.items() if value is not None}
        merged = {"dependencies": {}, **self.metadata.fields(timestamp), **own}
        if "runners" not in own:
            merged["runners"] = [self.runner()]
        if self.benchmark and (own.get("benchmark") or {}).get("name"):
            merged["benchmark"] = {**own["benchmark"], "name": self.benchmark}
        if self.metadata.synthetic and "job_id" not in own:
            merged["benchmark"] = _noted(merged.get("benchmark"), {SYNTHETIC: "synthetic"})
        exact = inexact(own["metric"])
        if exact:
            merged["metric"] = _noted(own["metric"], exact)
        return merged


def inexact(metric: Mapping[str, Any]) -> dict[str, str]:
    """The values that a Float32 would change (large whole numbers, null), as JSON text by ``{name}_exact``."""
    kept = {}
    values, target = metric.get("benchmark_values"), metric.get("target_value")
    if isinstance(values, list) and any(value is None or _changes(value) for value in values):
        kept["benchmark_values_exact"] = json.dumps(values)
    if target is not None and _changes(target):
        kept["target_value_exact"] = json.dumps(target)
    return kept


def _changes(value: object) -> bool:
    return is_rounded(value) or any(True for _ in changes("Float32", value))


def _noted(part: Mapping[str, Any] | None, notes: Mapping[str, str]) -> dict[str, Any]:
    """``part`` with ``notes`` in its extra_info, except where that has them."""
    noted = dict(part or {})
    noted["extra_info"] = {**notes, **(noted.get("extra_info") or {})}
    return noted
