"""The status of exceptions that torch really raises, and of others that only look like them."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

import pytest
import torch

from torchperf_ci.bench.worker.session import _answer_to
from torchperf_ci.bench.worker.torch_environment import UnsupportedError, status_of

if TYPE_CHECKING:
    from collections.abc import Callable

TEXT = "\"my_op\" not implemented for 'Half'"
NO_KERNEL = torch.ones(2, 2, dtype=torch.uint16)


def status(run: Callable[[], object]) -> str:
    with pytest.raises(Exception) as raised:  # noqa: PT011  # each is another one
        run()
    return status_of(raised.value)


def raising(error: BaseException) -> Callable[[], object]:
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


def test_of_what_a_compiler_says_the_end_is_told() -> None:
    """Each of its megabytes would be in the case's records."""
    told = _answer_to(raising(RuntimeError("\n".join(["C++ compile error", *["error"] * 2**20, "2 errors"]))))
    error = json.loads(told)["error"]
    assert error["reason"] == "RuntimeError: C++ compile error"
    assert error["traceback"].endswith("\nerror\n2 errors\n")
    assert len(error["traceback"]) < 2**15


def test_an_answer_that_is_no_json_is_told_and_does_not_end_the_worker() -> None:
    error = json.loads(_answer_to(lambda: {("a", "phase"): 0.1}))["error"]
    assert (error["status"], error["reason"].partition(",")[0]) == ("failed", "TypeError: keys must be str")


@pytest.mark.parametrize(
    "error", [asyncio.CancelledError("late"), SystemExit("late"), KeyboardInterrupt("late")]
)
def test_whatever_a_workload_raises_is_told(error: BaseException) -> None:
    assert json.loads(_answer_to(raising(error)))["error"]["reason"] == f"{type(error).__name__}: late"


def test_an_error_that_cannot_say_what_is_wrong_is_one_all_the_same() -> None:
    class MuteError(Exception):
        def __str__(self) -> str:
            return self.message

    error = json.loads(_answer_to(raising(MuteError())))["error"]
    assert (error["status"], error["reason"]) == (
        "failed",
        "MuteError: <exception str() failed>",
    )
    assert "in run\n" in error["traceback"]


def test_a_missing_compiler_is_unsupported() -> None:
    from torch._inductor.exc import InvalidCxxCompiler

    assert status(raising(InvalidCxxCompiler())) == "unsupported"


@pytest.mark.parametrize(
    ("module", "expected"), [("triton.runtime.build", "unsupported"), ("somebodys.suite", "failed")]
)
def test_tritons_missing_compiler_is_unsupported(module: str, expected: str) -> None:
    """In Triton's own words, raised where it looks for one."""
    names: dict[str, Callable[[], object]] = {}
    words = "Failed to find C compiler. Please specify via CC environment variable."
    exec(f"__name__ = {module!r}\ndef build():\n    raise RuntimeError({words!r})", names)
    assert status(names["build"]) == expected


def test_inductor_without_triton_is_unsupported() -> None:
    from torch._inductor.exc import TritonMissing

    assert status(raising(TritonMissing(None))) == "unsupported"


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
        raising(RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`")),
        raising(RuntimeError("Invalid buffer size: 19.45 GiB")),
    ],
)
def test_out_of_memory_is_told_apart(run: Callable[[], object]) -> None:
    assert status(run) == "oom"
