"""What must be equal for two points to be compared, out of what records say."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchperf_ci.metrics import ANCHORED

if TYPE_CHECKING:
    from collections.abc import Mapping

CASE_FACTS = ("anchor", "batch_size", "threads")
"""The facts of a case; all others are its machine's."""
_OWN = ("batch_size",)
_ANCHORED_OWN = ("batch_size", "threads")


def comparable_facts(
    metric: str, machine: Mapping[str, str], benchmark: Mapping[str, str], metric_info: Mapping[str, str]
) -> dict[str, str]:
    """The facts behind a point, from the ``extra_info`` of the first runner, of the benchmark and of the metric.

    ``fingerprint_of`` in ``machine`` names the facts about the machine; a record of another tool has none. An anchored
    metric has its anchor in their place.
    """
    if metric == ANCHORED:
        return _named(("anchor",), metric_info) | _named(_ANCHORED_OWN, benchmark)
    return _named(machine.get("fingerprint_of", "").split(","), machine) | _named(_OWN, benchmark)


def difference(old: Mapping[str, str], new: Mapping[str, str]) -> list[str]:
    """Where two maps of facts differ, as ``governor: powersave → performance``."""
    return [
        f"{name}: {old.get(name, 'not known')} → {new.get(name, 'not known')}"
        for name in sorted({*old, *new})
        if old.get(name) != new.get(name)
    ]


def _named(names: tuple[str, ...] | list[str], facts: Mapping[str, str]) -> dict[str, str]:
    return {name: facts[name] for name in names if facts.get(name)}
