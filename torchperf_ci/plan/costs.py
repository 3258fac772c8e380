"""What the cases of the last runs have cost, out of the store."""

from __future__ import annotations

from collections import defaultdict
from statistics import median
from typing import TYPE_CHECKING

from torchperf_ci.bench.costs import key
from torchperf_ci.store.client import statement
from torchperf_ci.store.migrating import open_existing

if TYPE_CHECKING:
    from torchperf_ci.bench.costs import Costs

NEWEST = 5
"""Runs of a case whose median counts."""
REMEMBERED = 60 * 86_400
"""Seconds after which a run is forgotten: a store may hold years."""


def measured_costs(dsn: str, benchmark: str, now: float) -> Costs:
    """Seconds of machine time by torch device and case; ``now`` are Unix seconds.

    Raises :class:`StoreError` or :class:`StoreUnreachableError`.
    """
    asked = {"benchmark": benchmark, "since": max(0, int(now - REMEMBERED)), "last": NEWEST}
    found: dict[str, dict[str, float]] = defaultdict(dict)
    with open_existing(dsn) as store:
        for device, *case, seconds in store.rows(statement("costs"), asked):
            found[device][key(*case)] = median(seconds)
    return found
