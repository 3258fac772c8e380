from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch

from torchperf_ci.bench.worker.session import WorkerSession
from torchperf_ci.bench.worker.step import StepRequest, build_step
from torchperf_ci.bench.worker.torch_environment import pinned, set_precision
from torchperf_ci.machine.devices import device as device_of
from torchperf_ci.suite import Task, workload

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CPU, CUDA = device_of("cpu"), device_of("cuda")
MATMUL = torch.backends.cuda.matmul


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    before, threads = torch.backends.fp32_precision, torch.get_num_threads()
    yield
    set_precision("fp32", CPU)
    torch.backends.fp32_precision = before
    torch.set_num_threads(threads)
    torch.set_default_dtype(torch.float32)
    torch.set_default_device(None)
    torch.set_grad_enabled(True)


@pytest.fixture
def tf32_exists(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_tf32_supported", lambda: True)


def test_fp32_is_exact_fp32_everywhere() -> None:
    set_precision("fp32", CPU)
    assert torch.backends.fp32_precision == "ieee"
    assert MATMUL.fp32_precision == "ieee"
    assert torch.backends.cudnn.conv.fp32_precision == "ieee"
    assert not torch.backends.cudnn.benchmark


@pytest.mark.usefixtures("tf32_exists")
@pytest.mark.parametrize("dtype", ["fp32", "tf32"])
def test_both_of_torchs_interfaces_answer(dtype: str) -> None:
    """Inductor with max-autotune and ``torch.export`` ask the old one, and so does whoever uses ``cudnn.flags``."""
    set_precision(dtype, CUDA)
    assert torch.get_float32_matmul_precision() == {"fp32": "highest", "tf32": "high"}[dtype]
    assert (torch.backends.cudnn.allow_tf32, MATMUL.allow_tf32) == (dtype == "tf32", dtype == "tf32")
    assert MATMUL.fp32_precision == {"fp32": "ieee", "tf32": "tf32"}[dtype]
    with torch.backends.cudnn.flags(enabled=True, benchmark=False):
        pass


def test_what_a_build_moves_is_put_back_and_told() -> None:
    @workload("test/moves", "", batch=1)
    def moves(_: int) -> Task:
        torch.set_float32_matmul_precision("medium")
        torch.backends.cudnn.benchmark = True
        MATMUL.allow_bf16_reduced_precision_reduction = False
        torch.set_num_threads(before + 1)
        torch.set_default_dtype(torch.float64)
        return Task(torch.nn.Linear(2, 2), (torch.ones(1, 2),))

    before = torch.get_num_threads()
    moved = build_step(moves, StepRequest("inference", "fp32", "eager", 1), CPU).moved
    assert moved["float32_matmul_precision"] == "highest → medium"
    assert moved["cudnn.benchmark"] == "False → True"
    assert moved["bf16 reduced-precision reduction"] == "True → False"
    assert moved["threads"] == f"{before} → {before + 1}"
    assert moved["default dtype"] == "torch.float32 → torch.float64"
    assert torch.get_float32_matmul_precision() == "highest"
    assert not torch.backends.cudnn.benchmark
    assert MATMUL.allow_bf16_reduced_precision_reduction
    assert torch.get_num_threads() == before
    assert torch.get_default_dtype() == torch.float32


def test_a_torch_that_has_no_word_for_a_reset_default_device_is_measured(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def of_torch_2_6() -> torch.device:
        msg = "'NoneType' object has no attribute 'device'"
        raise AttributeError(msg)

    monkeypatch.setattr(torch, "get_default_device", of_torch_2_6)
    with pinned("fp32", CPU) as moved:
        pass
    assert moved == {}


SETS_ALL = """\
import torch
from torchperf_ci.suite import Task, workload

torch.set_default_dtype(torch.float64)
torch.set_default_device("meta")
torch.set_num_threads(3)
torch.set_grad_enabled(False)

@workload("mine/linear", "")
def linear(batch):
    return Task(torch.nn.Linear(2, 2), (torch.ones(batch, 2),), loss=torch.mean)
"""


def test_what_a_suite_file_sets_for_all_of_torch_does_not_count(tmp_path: Path) -> None:
    (tmp_path / "suite.py").write_text(SETS_ALL)
    request = {"mode": "training", "dtype": "fp32", "backend": "eager", "batch_size": 1}
    session, files = WorkerSession(), [str(tmp_path / "suite.py")]
    torch.set_num_threads(2)
    assert session.describe("cpu", files).environment.comparable["torch_threads"] == "2"
    session.build("mine/linear", files, "cpu", 1, **request)
    session._step.run()
    gradient = next(session._step.model.parameters()).grad
    assert (gradient.dtype, gradient.device.type) == (torch.float32, "cpu")
    assert torch.get_num_threads() == 1


@pytest.mark.usefixtures("tf32_exists")
def test_one_interface_alone_leaves_the_other_contradictory_until_it_is_pinned_again() -> None:
    with pinned("fp32", CPU) as moved:
        MATMUL.fp32_precision = "tf32"
    assert moved["float32_matmul_precision"] == "highest → contradictory"
    assert torch.get_float32_matmul_precision() == "highest"


def test_a_build_that_moves_nothing_has_nothing_to_tell() -> None:
    with pinned("bf16", CPU) as moved:
        pass
    assert moved == {}
