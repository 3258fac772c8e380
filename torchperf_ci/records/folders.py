"""Where the records of one job of a matrix lie, once its artifact is downloaded beside those of the others."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

PREFIX = "torchperf-records-"
"""Of an artifact with records, before the name of the job that measured them."""


def folder_of(root: Path, job: str, jobs: int) -> Path:
    """The folder of ``job``, one of so many, below ``root``.

    Of a single job it is ``root`` itself where that has no such folder: ``actions/download-artifact`` makes none where
    it downloads one artifact.
    """
    folder = root / f"{PREFIX}{job}"
    return root if jobs == 1 and not folder.is_dir() else folder
