"""Process randomization: what chance decides of a process is drawn anew, so that it shows in their spread."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PADDING = "TORCHPERF_PADDING"
"""A variable whose length moves what lies on the stack, as the length of any other variable of the caller's would."""
MOST_PADDING = 4096
"""Characters: a page."""
HASH_SEEDS = 2**32

GRAPHS = ("fxgraph", "aotautograd")
"""Folders of a compiler's cache: graphs as they were lowered, with the variants in them that timing has chosen."""
_COMPILED_FOLDERS = ("triton", "extensions")
_COMPILED = (".so", ".dylib", ".o", ".cpp", ".h", ".hpp", ".gch", ".cu", ".cubin", ".hsaco", ".ukdb")
"""What is filed under a digest of its source and of how it was compiled: whoever chooses it again finds it there."""
_CHOSEN = ".autotune.json"
"""What Triton chose, among what it compiled."""


def drawn() -> dict[str, str]:
    """Variables of a process to come: the seed of Python's hashes, and characters that make its environment larger.

    Where these stay the same, two builds are told apart by what they happen to do to either, the surer the more pairs.
    """
    padding = "x" * random.randrange(MOST_PADDING)
    return {"PYTHONHASHSEED": str(random.randrange(HASH_SEEDS)), PADDING: padding}


def forget_choices(cache: Path, *, keep_graphs: bool = False) -> bool:
    """Take out of a compiler's cache what was chosen by timing, and keep what was compiled; whether there was any.

    Inductor times variants of a kernel (two in its default mode on CUDA, five on ROCm), of products, of paddings. It
    keeps the winners: of kernels in files beside them (``*.best_config``), of the rest in tables, in its graphs, and in
    whatever it comes to next; so it is said what stays. The next process lowers its graphs again, times the variants
    again, and has none to compile: that takes 2 of a pair's 12 s on a CPU, where one without a cache takes 30 to 40.

    ``keep_graphs`` leaves the graphs, which load in a moment, and with them the choices of products and paddings.
    """
    forgotten = False
    for path in [*_files(cache)]:
        if not _stays(path.relative_to(cache), keep_graphs=keep_graphs):
            path.unlink(missing_ok=True)
            forgotten = True
    return forgotten


def _files(cache: Path) -> Iterator[Path]:
    return (path for path in cache.rglob("*") if not path.is_dir())


def _stays(path: Path, *, keep_graphs: bool) -> bool:
    if path.name.endswith(_CHOSEN):
        return False
    folders = (*_COMPILED_FOLDERS, *(GRAPHS if keep_graphs else ()))
    return path.parts[0] in folders or path.name.endswith(_COMPILED)
