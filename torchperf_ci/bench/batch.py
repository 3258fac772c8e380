"""``--batch-size auto``: the batch size from which on a device has enough to do."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from torchperf_ci.bench.client import WorkerFailure
from torchperf_ci.bench.process import Inquiry, build_arguments, open_worker
from torchperf_ci.machine.devices.host_memory import available

if TYPE_CHECKING:
    from pathlib import Path

    from torchperf_ci.bench.case import Case, Settings

LARGEST = 2**16
WORTH_DOUBLING = 1.05
"""Growth of throughput below which a doubled batch only costs memory and latency."""
BLOCK_SECONDS = 0.2
MEMORY_SHARE = 0.5


def find_batch_size(case: Case, settings: Settings, scratch: Path) -> int:
    """Double from 1 until throughput stops growing or half of the memory ends, in one worker; the last size that paid.

    In pairs two workers must fit, and a case shall be the same alone.

    Raises :class:`WorkerFailure` if not even one sample can be processed.
    """
    best, best_throughput = 0, 0.0
    room = ((settings.seen.memory_mib << 20) or available()) * MEMORY_SHARE
    with open_worker(case, settings, scratch) as worker:
        inquiry = Inquiry(worker, settings.timeout)
        size = 1
        while size <= LARGEST:
            try:
                throughput = _throughput(inquiry, replace(case, batch_size=size), settings)
                used = inquiry.ask("peak")["device"]
            except WorkerFailure:
                if not best:
                    raise
                break
            if best and (throughput < best_throughput * WORTH_DOUBLING or used > room > 0):
                break
            best, best_throughput = size, throughput
            size *= 2
    return best


def _throughput(inquiry: Inquiry, case: Case, settings: Settings) -> float:
    """Samples a second over a short block after the first steps."""
    inquiry.ask("build", **build_arguments(case, settings))
    inquiry.ask("first_step")
    once = inquiry.ask("block", steps=1)["seconds"]
    steps = max(1, round(BLOCK_SECONDS / max(once, 1e-9)))
    seconds = min(inquiry.ask("block", steps=steps)["seconds"] for _ in range(3))
    return float(case.batch_size / seconds)
