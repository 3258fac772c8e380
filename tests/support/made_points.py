"""Series and points for tests, one run a day."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from torchperf_ci.series.points import Point, Series

if TYPE_CHECKING:
    from collections.abc import Sequence

DAY = 86_400
START = 1_790_000_000
MACHINE = {"driver": "550", "governor": "performance"}


def series(metric: str = "latency(ms)", model: str = "resnet", **changes: str) -> Series:
    """A series on one machine, unless ``changes`` say otherwise."""
    how = {"mode": "inference", "dtype": "bf16", "backend": "eager", "device": "cuda", "arch": "H100"}
    return Series(
        **{"repo": "octo/perf", "benchmark": "nightly", "model": model, "metric": metric, **how, **changes}
    )


def point(value: float | None, day: int, **changes: Any) -> Point:
    """What the run of a day has measured, once."""
    given = {
        "value": value,
        "repetitions": () if value is None else (value,),
        "timestamp": START + day * DAY,
        "commit": f"{day:040d}",
        "workflow_id": 1000 + day,
        "fingerprint": MACHINE,
        "run": f"{1000 + day}.1",
    }
    return Point(**{**given, **changes})


def row(values: Sequence[float | None], first: int = 0, **changes: Any) -> list[Point]:
    """One point a day."""
    return [point(value, first + day, **changes) for day, value in enumerate(values)]


def noisy(level: float, runs: int, cv: float = 0.01, seed: int = 0) -> list[float]:
    """Values of a series that nothing happens to."""
    return list(level * np.exp(np.random.default_rng(seed).normal(0, cv, runs)))
