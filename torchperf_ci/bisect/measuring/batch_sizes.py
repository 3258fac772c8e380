"""``--batch-size auto``: found once for a bisection, by its good build, and kept for the jobs that go on with it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from torchperf_ci.bench.batch import find_batch_size
from torchperf_ci.bench.client import WorkerFailure
from torchperf_ci.bench.pairs import on_same_cpus
from torchperf_ci.bisect.measuring.laboratory import useless
from torchperf_ci.bisect.measuring.probes import CommandProbe
from torchperf_ci.bisect.reasoning.facts import BatchSize

if TYPE_CHECKING:
    from pathlib import Path

    from torchperf_ci.bench.case import Settings
    from torchperf_ci.bisect.measuring.probes import Probe
    from torchperf_ci.bisect.state import State


def settled(probe: Probe, settings: Settings, good: object, kept: State, scratch: Path) -> Probe:
    """The probe with a batch size: its own, the one that was ``kept``, or the one that is found now.

    ``settings`` are those of the good build, which messages call ``good``. Raises :class:`WorkloadsFailedError` where
    it cannot process even one sample.
    """
    if isinstance(probe, CommandProbe) or probe.case.batch_size:
        return probe
    if probe.name not in kept.batch_sizes:
        pinned, _ = on_same_cpus(settings, settings)
        try:
            size = find_batch_size(probe.case, pinned, scratch / "batch_sizes")
        except WorkerFailure as failure:
            raise useless(probe.name, good, str(failure)) from None
        kept.add(BatchSize(probe.name, size))
    return replace(probe, case=replace(probe.case, batch_size=kept.batch_sizes[probe.name]))
