"""The worker process. It runs in the environment under test and needs only torch and the standard library."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

freeze_once = cache(gc.freeze)
"""Freeze unless that has been done: :func:`gc.get_freeze_count` counts one by one what torch has imported."""


def unfreeze() -> None:
    """Undo :func:`freeze_once`."""
    gc.unfreeze()
    freeze_once.cache_clear()


@contextmanager
def garbage_collector_paused() -> Iterator[None]:
    """Pause the garbage collector in the block, which imports torch or its compiler.

    Their objects stay alive, and scanning them several times takes a tenth of the time to import torch, and a quarter
    of that to import the compiler.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        unfreeze()  # moves the objects to the oldest generation, which is scanned least often
        gc.enable()
