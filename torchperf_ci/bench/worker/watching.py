"""Observe operators with a ``TorchDispatchMode`` without importing torch's compiler."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch.utils._python_dispatch import TorchDispatchMode

COMPILER = "torch._dynamo"


@contextmanager
def without_compiler(mode: type[TorchDispatchMode]) -> Iterator[None]:
    """Remove the wrapper that keeps the compiler from compiling ``mode`` itself, for the duration of the block.

    On its first operator the wrapper imports the compiler in order to disable it, which takes half of a worker's
    start-up time. If the compiler is already imported the wrapper stays; older versions of torch have no wrapper.
    """
    wrapped = mode.__torch_dispatch__
    if COMPILER not in sys.modules:
        mode.__torch_dispatch__ = getattr(wrapped, "__wrapped__", wrapped)  # type: ignore[method-assign]
    try:
        yield
    finally:
        mode.__torch_dispatch__ = wrapped  # type: ignore[method-assign]
