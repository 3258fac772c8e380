"""Pause the garbage collector while modules are imported."""

from __future__ import annotations

import gc
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def collector_paused() -> Iterator[None]:
    """Import torch or its compiler in the block.

    What they make stays. The collector would look through it several times meanwhile: a tenth of the start of torch, a
    quarter of that of its compiler.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.unfreeze()  # from now on it is what a process has that has lived for a while
        gc.enable()
