"""What is attached to a comparison of profiles, for those who look further: all rows as a table, and the traces."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from torchperf_ci.actions import one_line
from torchperf_ci.records.files import replace_file

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from torchperf_ci.bench.profile_changes import Changes, Row
    from torchperf_ci.bench.profiles import Cost

TABLE = "operators.tsv"
TRACES = ("old.trace.json.gz", "new.trace.json.gz")
TRACE_LIMIT = 32 * 2**20
"""Bytes of a trace that is kept; what is larger takes a browser minutes to show."""

_COLUMNS = (
    "kind", "old_ms", "new_ms", "change_ms", "noise_ms", "old_count", "new_count", "moved", "name"
)  # fmt: skip


def keep(folder: Path, changes: Changes, traces: Mapping[str, Path]) -> None:
    """Put all rows into ``folder`` as a table, and the traces by their names there (:data:`TRACES`).

    Raises :class:`OSError` or :class:`OutputDirectoryError`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    replace_file(folder / TABLE, table(changes.rows))
    for name, trace in traces.items():
        if trace.stat().st_size <= TRACE_LIMIT:
            temporary = folder / f".{name}.tmp"
            shutil.copyfile(trace, temporary)
            temporary.replace(folder / name)


def table(rows: Sequence[Row]) -> str:
    """Tab-separated lines below one of names: milliseconds and calls a step, a dash where there is nothing."""
    lines = [_COLUMNS, *map(_cells, rows)]
    return "".join("\t".join(map(one_line, line)) + "\n" for line in lines)


def _cells(row: Row) -> tuple[str, ...]:
    old_ms, old_count = _numbers(row.old)
    new_ms, new_count = _numbers(row.new)
    moved = ", ".join(word for word, sure in (("time", row.in_time), ("count", row.in_count)) if sure)
    return (
        row.key.kind, old_ms, new_ms, f"{row.change_ms:+.6f}", f"{row.noise_ms:.6f}", old_count, new_count,
        moved or "-", row.key.name,
    )  # fmt: skip


def _numbers(cost: Cost | None) -> tuple[str, str]:
    return (f"{cost.ms:.6f}", f"{cost.count:g}") if cost else ("-", "-")
