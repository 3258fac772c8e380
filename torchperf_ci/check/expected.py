"""Which jobs of a matrix have delivered no record: a job that failed leaves nothing else behind."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchperf_ci.records.folders import PREFIX, folder_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence
    from pathlib import Path


def absences(root: Path, files: Iterable[Path], expected: Collection[str]) -> Sequence[str]:
    """A note on each of the ``expected`` jobs of whose folder below ``root`` no record is among ``files``."""
    holding = {folder for file in files for folder in (file, *file.parents)}
    found = {job for job in expected if folder_of(root, job, len(expected)) in holding}
    named = any(folder.parent == root and folder.name.startswith(PREFIX) for folder in holding)
    if len(expected) > 1 and not found and not named:
        return [
            f"which of the {len(expected)} expected jobs measured this is not known: no folder is {PREFIX}NAME"
        ]
    return [f"{job}: nothing was measured" for job in expected if job not in found]
