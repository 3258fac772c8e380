"""What each case costs, by the file of ``torchperf plan --costs``, and shards that take equally long by that."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from torchperf_ci import json_files
from torchperf_ci.bench.case import AUTO_BATCH, Case
from torchperf_ci.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torchperf_ci.bench.case import Settings


COSTS_VERSION = 1
COSTS_SIZE_LIMIT = 64 * 2**20
"""Bytes of a file that is read; 10,000 cases take less than 1 MiB."""

Costs = Mapping[str, Mapping[str, float]]
"""Seconds by torch device, then by :func:`cost_key`."""

_COSTS_FORMAT = json_files.JsonFormat(
    Path(__file__).with_name("costs.schema.json"), COSTS_VERSION, UsageError
)


def cost_key(workload: str, mode: str, dtype: str, backend: str) -> str:
    """A case's own key without its batch size, which may differ from device to device."""
    return Case(workload, mode, dtype, backend, 0).key.removesuffix(f".b{AUTO_BATCH}")


def cost_key_of(case: Case) -> str:
    """The same of a case."""
    return cost_key(case.workload, case.mode, case.dtype, case.backend)


def write_costs(path: Path, costs: Costs) -> None:
    """Write ``costs`` to ``path``, whole or not at all, and make the directories that it lacks.

    Raises :class:`UsageError` where a directory cannot be made, :class:`OutputDirectoryError` for the file.
    """
    ordered = {device: dict(sorted(known.items())) for device, known in sorted(costs.items())}
    _COSTS_FORMAT.write(path, json_files.json_text({"version": COSTS_VERSION, "costs": ordered}))


def read_costs(path: Path) -> Costs:
    """Read and check a file. Raises :class:`UsageError`, which says where in the file and what is wrong."""
    costs: Costs = _COSTS_FORMAT.read(path, COSTS_SIZE_LIMIT)["costs"]
    return costs


FIRST_COMPILATION = 30.0
"""Seconds that a compiled case takes longer than others, in its first process."""


def expected_seconds(
    cases: Sequence[Case], settings: Settings, start_seconds: float, anchored: bool
) -> float:
    """What a run will take, roughly; ``start_seconds`` is what starting a worker took just now.

    A process starts, takes as long again for first steps and for what is not sampled, and samples for its budget; a
    pair is two processes.
    """
    each = 2 * start_seconds + settings.budget
    processes = len(cases) * settings.processes * (3 if anchored else 1)
    return processes * each + FIRST_COMPILATION * sum(case.compiled for case in cases)


Shard = tuple[int, int]
"""Its number from 1, and of how many."""


def cases_of_shard(
    cases: Sequence[Case], shard: Shard, costs: Mapping[str, float] | None = None
) -> tuple[Case, ...]:
    """The cases of a shard, in their order; all shards together have each case once.

    Without ``costs`` (seconds by the key of a case) every ``shard[1]``-th case is in it, so that the shards have
    equally many. With them they take about equally long: the longest case left goes to the shard that has least to do
    (longest processing time first; Graham 1969, doi:10.1137/0117039: at most 4/3 of the best there is). A case that is
    not known costs the median of those that are.
    """
    number, of = shard
    if costs is None:
        return tuple(cases[number - 1 :: of])
    chosen = _assigned_shards(_expected_seconds(cases, costs), of)
    return tuple(case for case, owner in zip(cases, chosen, strict=True) if owner == number - 1)


def _expected_seconds(cases: Sequence[Case], costs: Mapping[str, float]) -> list[float]:
    found = [costs.get(cost_key_of(case)) for case in cases]
    known = [seconds for seconds in found if seconds is not None]
    usual = median(known) if known else 1.0
    return [usual if seconds is None else seconds for seconds in found]


def _assigned_shards(seconds: Sequence[float], shards: int) -> list[int]:
    """The shard of each case, from 0. Of equally busy ones that with the fewest cases gets the next, then the first."""
    chosen = [0] * len(seconds)
    busy = [(0.0, 0, shard) for shard in range(shards)]
    for case in sorted(range(len(seconds)), key=lambda case: -seconds[case]):
        total, cases, shard = min(busy)
        busy[shard] = (total + seconds[case], cases + 1, shard)
        chosen[case] = shard
    return chosen
