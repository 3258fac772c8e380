"""How a failure inside the worker is told to the parent: a status word and a reason."""

from __future__ import annotations

import dis
import re

import torch

OUT_OF_MEMORY = ("out of memory", "can't allocate memory", "cannot allocate memory", "_status_alloc_failed")
"""The last is what cuBLAS and cuDNN say."""

_NO_KERNEL = re.compile(r"""\"\w+\" not implemented for \\?'\w+""")
"""What torch's kernels say of a dtype that they are not compiled for; a compiler quotes it."""
_NO_COMPILER = re.compile(
    r"\bInvalidCxxCompiler\b|\bNo working C\+\+ compiler\b|Cannot find a working triton|Failed to find C compiler"
)
"""The last is Triton's own, which inductor quotes, or which comes by itself at the first launch."""


class UnsupportedError(Exception):
    """A combination of workload, mode, dtype, device and backend that does not exist here."""


def status_of(error: BaseException) -> str:
    """``oom``, ``unsupported`` or ``failed``, from what torch raises for each."""
    text = f"{type(error).__name__}: {error}".lower()
    if isinstance(error, (torch.OutOfMemoryError, MemoryError)) or any(
        mark in text for mark in OUT_OF_MEMORY
    ):
        return "oom"
    return "unsupported" if isinstance(error, UnsupportedError) or _is_lacking(error) else "failed"


def _is_lacking(error: BaseException) -> bool:
    """Whether torch says that it has no such kernel, or no compiler for one.

    A run does not fail for that, so a workload's own errors must not pass for it, whatever they are called.
    """
    text = f"{type(error).__name__}: {error}"
    # Its compiler's, which may quote a kernel's, or the compiler's below that.
    if type(error).__module__.startswith("torch.") or _is_raised_in(error, "triton"):
        return bool(_NO_KERNEL.search(text) or _NO_COMPILER.search(text))
    if _is_raised_in_python(error):
        return False
    return isinstance(error, NotImplementedError) or (
        isinstance(error, RuntimeError) and bool(_NO_KERNEL.search(text))
    )


def _is_raised_in(error: BaseException, package: str) -> bool:
    place = error.__traceback__
    while place is not None and place.tb_next is not None:
        place = place.tb_next
    name = place.tb_frame.f_globals.get("__name__", "") if place else ""
    return str(name).partition(".")[0] == package


def _is_raised_in_python(error: BaseException) -> bool:
    """Whether it comes from a ``raise``, and not out of a call: torch's kernels and its dispatcher are no Python."""
    place = error.__traceback__
    if place is None:
        return True
    while place.tb_next is not None:
        place = place.tb_next
    instruction = place.tb_frame.f_code.co_code[place.tb_lasti]
    return dis.opname[instruction] in ("RAISE_VARARGS", "RERAISE")
