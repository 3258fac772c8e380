"""Conclusions of bisections of a simulated range."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING
from unittest.mock import Mock

import numpy as np
from simulated_range import Ended, Simulated, SimulatedRange, bisected

from torchperf_ci.bisect.commits import BuildSequence
from torchperf_ci.bisect.conclusion import SearchResult, conclude
from torchperf_ci.bisect.measurement_setup import MeasurementSetup
from torchperf_ci.environments.revisions import Revision

if TYPE_CHECKING:
    from torchperf_ci.bisect.measurement_setup import BisectLimits

N = 30
LATENCY = "vision/resnet18 latency(ms) (inference fp32 eager cpu)"
THROUGHPUT = "vision/resnet18 throughput(samples/s) (inference fp32 eager cpu)"
SLOWER = {LATENCY: Simulated({17: 1.07})}


def sha(position: int) -> str:
    return f"{position:040d}"


def found(ended: Ended, notes=(), levels=None) -> SearchResult:
    states = [Revision(Path("repo"), sha(position), f"commit {position}") for position in range(N + 1)]
    line = BuildSequence(states, np.full(N, 1 / N))
    setting = MeasurementSetup((), Mock(), notes, levels or {})
    return SearchResult(line, ended.investigation, ended.ended_by, setting)


def concluded(series, limits: BisectLimits | None = None, rules=None, **more):
    return conclude(found(bisected(SimulatedRange(N, series, **more), limits)), rules or {})
