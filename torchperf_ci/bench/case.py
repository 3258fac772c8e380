"""A case, the settings with which all cases of a run are measured, and what cases cost, which divides them into shards.

A case is a workload in one configuration. The file of costs is that of ``torchperf plan --costs``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from torchperf_ci import json_files
from torchperf_ci.machine.devices import device
from torchperf_ci.machine.devices.interface import UNKNOWN_GPU, Device, TorchGpu

if TYPE_CHECKING:
    from torchperf_ci.bench.worker.protocol import TorchEnvironment


AUTO_BATCH = "auto"


@dataclass(frozen=True)
class Case:
    """A workload in one mode, dtype, backend and batch size. ``batch_size`` 0 means not yet determined (``auto``)."""

    workload: str
    mode: str
    dtype: str
    backend: str
    batch_size: int
    task: str = ""
    origin: str = "torch"

    @property
    def key(self) -> str:
        """Identifier that is unique within a run; also the name of the case's record file without its extension."""
        name = f"{self.workload}.{self.mode}.{self.dtype}.{self.backend}.b{self.batch_size or AUTO_BATCH}"
        return re.sub(r"[^A-Za-z0-9_.-]+", "-", name)

    @property
    def cost_key(self) -> str:
        """The key without the batch size, which may differ from device to device."""
        return replace(self, batch_size=0).key.removesuffix(f".b{AUTO_BATCH}")

    @property
    def compiled(self) -> bool:
        return self.backend != "eager"

    def __str__(self) -> str:
        batch = self.batch_size or AUTO_BATCH
        return f"{self.workload} {self.mode} {self.dtype} {self.backend} batch {batch}"


@dataclass(frozen=True)
class Settings:
    """How every case of a run is measured. Times are in seconds; ``target_ci`` is a relative half-width.

    ``files`` are suite files. ``path`` lists folders that the environment under test imports from first, for code
    that is not installed but is in a checkout. ``hip`` and ``seen`` describe the device as torch reports it, if it was
    asked.
    """

    python: str
    device: str
    files: tuple[str, ...] = ()
    path: tuple[str, ...] = ()
    processes: int = 3
    target_ci: float = 0.01
    budget: float = 3.0
    timeout: float = 300.0
    threads: int = 1
    cpus: tuple[int, ...] = ()
    hip: bool = False
    seen: TorchGpu = UNKNOWN_GPU

    @cached_property
    def hardware(self) -> Device:
        """The backend of the device, which measures on it and knows its vendor's tools."""
        return device(self.device, self.hip, self.seen)

    def on(self, environment: TorchEnvironment) -> Settings:
        """Return these settings with the device as torch has described it."""
        return replace(self, device=environment.device, hip=environment.hip, seen=environment.seen)

    def plan(self) -> Mapping[str, object]:
        """Settings that must be the same to resume an interrupted run. Which CPUs it is pinned to does not matter."""
        return {name: value for name, value in asdict(self).items() if name != "cpus"}


COSTS_VERSION = 1

Costs = Mapping[str, Mapping[str, float]]
"""Seconds by torch device, then by :attr:`Case.cost_key`."""

_COSTS_FORMAT = json_files.JsonFormat(Path(__file__).with_name("costs.schema.json"), COSTS_VERSION)


def write_costs(path: Path, costs: Costs) -> None:
    """Write ``costs`` to ``path`` atomically, creating missing directories. Raises :class:`OutputDirectoryError`."""
    ordered = {device: dict(sorted(known.items())) for device, known in sorted(costs.items())}
    json_files.write_json_file(path, json_files.json_text({"version": COSTS_VERSION, "costs": ordered}))


def read_costs(path: Path) -> Costs:
    """Read and validate a file of costs. Raises :class:`JsonFileError`."""
    costs: Costs = _COSTS_FORMAT.read(path)["costs"]
    return costs


FIRST_COMPILATION = 30.0
"""Extra seconds that the first process of a compiled case takes."""


def expected_seconds(
    cases: Sequence[Case], settings: Settings, start_seconds: float, anchored: bool
) -> float:
    """Estimate the duration of a run. ``start_seconds`` is how long starting a worker has just taken.

    A process takes that long to start, about as long again for first steps and everything that is not sampled, and
    samples for its budget. A pair with the anchor is two more processes.
    """
    each = 2 * start_seconds + settings.budget
    processes = len(cases) * settings.processes * (3 if anchored else 1)
    return processes * each + FIRST_COMPILATION * sum(case.compiled for case in cases)


def cases_of_shard(
    cases: Sequence[Case], shard: tuple[int, int], costs: Mapping[str, float]
) -> tuple[Case, ...]:
    """Return the cases of a shard (number from 1, number of shards), in their order. Each case is in exactly one shard.

    Shards take about equally long by ``costs`` (seconds by cost key): the longest remaining case goes to the least busy
    shard (longest processing time first; Graham 1969, doi:10.1137/0117039: at most 4/3 of the optimum). A case without
    a known cost counts as the median of the known ones. If none is known, a shard gets every ``shard[1]``-th case.
    """
    number, of = shard
    usual = median([costs[case.cost_key] for case in cases if case.cost_key in costs] or [1.0])
    seconds = {case: costs.get(case.cost_key, usual) for case in cases}
    busy = [(0.0, 0, shard) for shard in range(1, of + 1)]
    chosen: dict[Case, int] = {}
    for case in sorted(cases, key=lambda case: -seconds[case]):
        total, count, owner = min(busy)  # of equally busy shards, the one with the fewest cases
        busy[owner - 1] = (total + seconds[case], count + 1, owner)
        chosen[case] = owner
    return tuple(case for case in cases if chosen[case] == number)
