"""What the compiler did: time of the first step, graph breaks, recompilations, caches."""

from __future__ import annotations

import resource
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from torchperf_ci.machine.devices.base import Device


@dataclass(frozen=True)
class FirstStep:
    """Wall seconds, and CPU seconds of this process and of the compilers it waited for."""

    wall: float
    cpu: float


@dataclass(frozen=True)
class Compilation:
    """Counts since the process began.

    ``recompiles`` are compilations of a frame that had been compiled before; they may hit the cache. A graph that
    cannot be cached is missed each time.
    """

    graphs: int
    graph_breaks: int
    recompiles: int
    recompile_reasons: tuple[str, ...]
    cache_hits: int
    cache_misses: int
    cudagraph_skips: int


def first_step(device: Device, step: Callable[[], object]) -> FirstStep:
    """Time the step that pays for compilation, lazy initialisation and cold caches."""
    wall, cpu = time.perf_counter(), _cpu_seconds()
    step()
    device.synchronize()
    return FirstStep(time.perf_counter() - wall, _cpu_seconds() - cpu)


def compilation() -> Compilation:
    """Read dynamo's and inductor's counters."""
    from torch._dynamo.utils import counters, get_compilation_metrics

    reasons = tuple(filter(None, map(_recompile_reason, get_compilation_metrics())))
    inductor = counters["inductor"]
    return Compilation(
        graphs=counters["stats"]["unique_graphs"],
        graph_breaks=_total(counters["graph_break"]),
        recompiles=len(reasons),
        recompile_reasons=reasons,
        cache_hits=inductor["fxgraph_cache_hit"],
        cache_misses=inductor["fxgraph_cache_miss"] + inductor["fxgraph_cache_bypass"],
        cudagraph_skips=inductor["cudagraph_skips"],
    )


def _recompile_reason(metrics: Any) -> str:
    """Why a frame was compiled again; empty for the first time. torch 2.6 counts, and tells no reason."""
    if hasattr(metrics, "recompile_reason"):
        return str(metrics.recompile_reason or "")
    return "not told by this torch" if metrics.cache_size else ""


def _total(counter: Any) -> int:
    return int(sum(counter.values()))


def _cpu_seconds() -> float:
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime
