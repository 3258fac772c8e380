"""Operators are looked at while they run, and torch's compiler is not imported for that."""

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
    """Let ``mode`` watch without the wrapper that keeps a compiler from compiling ``mode`` itself.

    The first operator that the wrapper sees imports the compiler, to be told not to: half of what a worker takes to
    start. A worker that has the compiler keeps the wrapper; older torches have none.
    """
    wrapped = mode.__torch_dispatch__
    if COMPILER not in sys.modules:
        mode.__torch_dispatch__ = getattr(wrapped, "__wrapped__", wrapped)  # type: ignore[method-assign]
    try:
        yield
    finally:
        mode.__torch_dispatch__ = wrapped  # type: ignore[method-assign]
