"""The names of a series and the points that it is made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple


class Group(NamedTuple):
    """What one job measures: a benchmark of a repository on one kind of machine."""

    repo: str
    benchmark: str
    device: str
    arch: str


@dataclass(frozen=True, order=True)
class Series:
    """One metric of one model, measured in one way on one kind of machine."""

    repo: str
    benchmark: str
    model: str
    mode: str
    dtype: str
    backend: str
    device: str
    arch: str
    metric: str

    @property
    def group(self) -> Group:
        """The series that are measured together."""
        return Group(self.repo, self.benchmark, self.device, self.arch)

    @property
    def case(self) -> Series:
        """The same for all metrics of one case: the series without its metric."""
        return replace(self, metric="")

    def __str__(self) -> str:
        how = " ".join(part for part in (self.mode, self.dtype, self.backend, self.device) if part)
        return f"{self.model} {self.metric} ({how})" if how else f"{self.model} {self.metric}"


@dataclass(frozen=True, slots=True)
class Point:
    """What one run measured of a series.

    ``value`` is the median of ``repetitions``, in the metric's own unit; None where the run has no number.
    ``timestamp`` is Unix seconds, 0 where it is unknown. ``run`` is equal for all that was measured together, and for
    nothing else. ``fingerprint`` holds the facts that must be equal for two points to be compared, ``info`` what the
    record says beside the value (``status``, ``reason``, words) and ``torch``, the commit of PyTorch.
    """

    value: float | None
    repetitions: tuple[float, ...] = ()
    timestamp: int = 0
    branch: str = ""
    commit: str = ""
    workflow_id: int = 0
    run_attempt: int = 0
    job_id: int = 0
    target: float = 0.0
    fingerprint: Mapping[str, str] = field(default_factory=dict)
    info: Mapping[str, str] = field(default_factory=dict)
    run: str = ""


Points = Mapping[Series, Sequence[Point]]
"""The points of each series, oldest first."""
