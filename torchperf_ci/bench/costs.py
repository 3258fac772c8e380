"""What cases cost, as ``torchperf plan`` learns it from the past and ``torchperf run`` splits its work by it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from torchperf_ci import json_file
from torchperf_ci.bench.case import AUTO_BATCH, Case
from torchperf_ci.errors import UsageError

VERSION = 1
SIZE_LIMIT = 64 * 2**20
"""Bytes of a file that is read; 10,000 cases take less than 1 MiB."""

Costs = Mapping[str, Mapping[str, float]]
"""Seconds by torch device, then by :func:`key`."""

_FORMAT = json_file.Format(Path(__file__).with_name("costs.schema.json"), VERSION, UsageError)


def key(workload: str, mode: str, dtype: str, backend: str) -> str:
    """A case's own key without its batch size, which may differ from device to device."""
    return Case(workload, mode, dtype, backend, 0).key.removesuffix(f".b{AUTO_BATCH}")


def key_of(case: Case) -> str:
    """The same of a case."""
    return key(case.workload, case.mode, case.dtype, case.backend)


def write(path: Path, costs: Costs) -> None:
    """Write ``costs`` to ``path``, whole or not at all, and make the directories that it lacks.

    Raises :class:`UsageError` where a directory cannot be made, :class:`OutputDirectoryError` for the file.
    """
    ordered = {device: dict(sorted(known.items())) for device, known in sorted(costs.items())}
    _FORMAT.write(path, json_file.text_of({"version": VERSION, "costs": ordered}))


def read(path: Path) -> Costs:
    """Read and check a file. Raises :class:`UsageError`, which says where in the file and what is wrong."""
    costs: Costs = _FORMAT.read(path, SIZE_LIMIT)["costs"]
    return costs
