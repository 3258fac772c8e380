"""How a failure inside the worker is told to the parent: a status word and a reason."""

from __future__ import annotations

import torch

OUT_OF_MEMORY = ("out of memory", "can't allocate memory", "cannot allocate memory")
NOT_SUPPORTED = ("not implemented for", "invalidcxxcompiler", "no working c++ compiler")


class UnsupportedError(Exception):
    """A combination of workload, mode, dtype, device and backend that does not exist here."""


def status_of(error: BaseException) -> str:
    """``oom``, ``unsupported`` or ``failed``, from what torch raises for each."""
    text = f"{type(error).__name__}: {error}".lower()
    if isinstance(error, (torch.OutOfMemoryError, MemoryError)) or any(
        mark in text for mark in OUT_OF_MEMORY
    ):
        return "oom"
    if isinstance(error, (UnsupportedError, NotImplementedError)) or any(
        mark in text for mark in NOT_SUPPORTED
    ):
        return "unsupported"
    return "failed"
