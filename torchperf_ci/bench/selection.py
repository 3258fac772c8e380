"""Which cases a run has: suites, filters and shards over the catalogue of the environment under test."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from torchperf_ci.bench.case import Case
from torchperf_ci.bench.sharding import part
from torchperf_ci.errors import UnknownNameError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from torchperf_ci.bench.costs import Costs


DEVICE_CLASSES = {"cpu": "cpu", "mps": "integrated"}
"""What default batch sizes go by; every other device is an accelerator, with a memory of its own."""


@dataclass(frozen=True)
class Known:
    """The catalogue as a worker describes it: workloads by name, suites by name (a file's is its path)."""

    workloads: Mapping[str, Mapping[str, Any]]
    suites: Mapping[str, Sequence[str]]

    @classmethod
    def of(cls, described: Mapping[str, Any]) -> Known:
        """From the answer to the worker's ``describe``."""
        return cls({entry["name"]: entry for entry in described["workloads"]}, described["suites"])

    def members(self, patterns: Iterable[str]) -> list[str]:
        """Names of the workloads that the suites, names or globs select, in the catalogue's order."""
        wanted: set[str] = set()
        for pattern in patterns:
            found = self.suites.get(pattern) or [
                name for name in self.workloads if fnmatchcase(name, pattern)
            ]
            if not found:
                msg = "suite or workload"
                raise UnknownNameError(msg, pattern, [*self.suites, *self.workloads], "torchperf list")
            wanted.update(found)
        return [name for name in self.workloads if name in wanted]


@dataclass(frozen=True)
class Grid:
    """Workloads (suites, names, globs) and the modes, dtypes and backends to measure each in."""

    workloads: Sequence[str]
    modes: Sequence[str]
    dtypes: Sequence[str]
    backends: Sequence[str]


@dataclass(frozen=True)
class Selection:
    """Grids, less what no filter matches, less what belongs to other shards.

    ``batch_size`` None is each workload's default for its mode and device, 0 is to be found. ``shard`` is
    (number from 1, of how many); ``costs``, where they are known, make shards that take equally long.
    """

    grids: Sequence[Grid]
    filters: Sequence[str] = ()
    batch_size: int | None = None
    shard: tuple[int, int] = (1, 1)
    costs: Costs | None = None


def select(selection: Selection, known: Known, device: str) -> tuple[Case, ...]:
    """The cases of this shard, each once; raises :class:`UsageError` when the whole selection is empty."""
    cases = dict.fromkeys(
        case
        for grid in selection.grids
        for name in known.members(grid.workloads)
        if matches(name, selection.filters)
        for case in _combinations(grid, known.workloads[name], selection.batch_size, device)
    )
    if not cases:
        msg = "nothing to run: no selected workload has these modes and passes the filters; see `torchperf list`"
        raise UsageError(msg)
    costs = None if selection.costs is None else selection.costs.get(device, {})
    return part(tuple(cases), selection.shard, costs)


def matches(name: str, filters: Sequence[str]) -> bool:
    """Whether a workload passes the filters: any of the globs, or none given."""
    return not filters or any(fnmatchcase(name, pattern) for pattern in filters)


def _combinations(
    grid: Grid, entry: Mapping[str, Any], batch_size: int | None, device: str
) -> Iterable[Case]:
    sizes = entry["batch_sizes"]
    device_class = DEVICE_CLASSES.get(device, "accelerator")
    for mode in grid.modes:
        if mode not in entry["modes"]:
            continue
        size = sizes.get(f"{mode}/{device_class}", sizes[mode]) if batch_size is None else batch_size
        for dtype in grid.dtypes:
            for backend in grid.backends:
                yield Case(entry["name"], mode, dtype, backend, size, entry["task"], entry["origin"])
