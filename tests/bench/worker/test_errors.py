"""A status word for what torch really raises, and for what only looks like it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch

from torchperf_ci.bench.worker.errors import UnsupportedError, status_of

if TYPE_CHECKING:
    from collections.abc import Callable

TEXT = "\"my_op\" not implemented for 'Half'"
NO_KERNEL = torch.ones(2, 2, dtype=torch.uint16)


def status(run: Callable[[], object]) -> str:
    with pytest.raises(Exception) as raised:  # noqa: PT011  # each is another one
        run()
    return status_of(raised.value)


def raising(error: Exception) -> Callable[[], object]:
    def run() -> None:
        raise error

    return run


def raised_again() -> None:
    try:
        NO_KERNEL @ NO_KERNEL
    except NotImplementedError:
        torch.ones(1)
        raise


@pytest.mark.parametrize(
    "run",
    [
        lambda: NO_KERNEL @ NO_KERNEL,
        lambda: torch.histc(torch.ones(3, dtype=torch.bool)),
        lambda: torch.eye(2).to_sparse().sort(),  # the dispatcher's
        lambda: torch.compile(lambda x: x @ x, backend="eager")(NO_KERNEL),
        raised_again,
        raising(UnsupportedError("no such mode")),
    ],
)
def test_what_torch_lacks_is_unsupported(run: Callable[[], object]) -> None:
    assert status(run) == "unsupported"


def test_a_missing_compiler_is_unsupported() -> None:
    from torch._inductor.exc import InvalidCxxCompiler

    assert status(raising(InvalidCxxCompiler())) == "unsupported"


@pytest.mark.parametrize(
    "run",
    [
        raising(RuntimeError(TEXT)),
        raising(NotImplementedError(TEXT)),
        raising(NotImplementedError()),
        raising(ValueError("InvalidCxxCompiler: no working C++ compiler")),
        lambda: torch.nn.Module()(torch.ones(1)),  # no forward
        lambda: int(TEXT),
        lambda: torch.ones(2) @ torch.ones(3),
    ],
)
def test_what_only_says_so_has_failed(run: Callable[[], object]) -> None:
    assert status(run) == "failed"


@pytest.mark.parametrize(
    "run",
    [
        lambda: torch.empty(2**60),
        raising(MemoryError()),
        raising(torch.OutOfMemoryError("CUDA out of memory")),
    ],
)
def test_out_of_memory_is_told_apart(run: Callable[[], object]) -> None:
    assert status(run) == "oom"
