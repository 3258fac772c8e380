from __future__ import annotations

import gc
import random
from collections import UserDict, deque
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING
from weakref import WeakSet

import numpy
import pytest
import torch

from torchperf_ci.bench.worker import unfreeze
from torchperf_ci.bench.worker.correctness import agreement_with_eager, observe
from torchperf_ci.bench.worker.flops import count_flops
from torchperf_ci.bench.worker.session import WorkerSession
from torchperf_ci.bench.worker.step import StepRequest, build_step, compilation_counts, time_first_step
from torchperf_ci.bench.worker.torch_environment import UnsupportedError
from torchperf_ci.machine.devices import device as device_of
from torchperf_ci.suite import Task, Workload, workload

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Iterator
    from pathlib import Path

CPU = device_of("cpu")


@workload("test/net", "embedding and linear", batch=4)
def net(batch_size: int) -> Task:
    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding = torch.nn.Embedding(10, 8)
            self.linear = torch.nn.Linear(8, 3)

        def forward(self, index: torch.Tensor, more: dict[str, torch.Tensor]) -> torch.Tensor:
            return self.linear(self.embedding(index) * more["scale"])

    inputs = (torch.randint(10, (batch_size,)), {"scale": torch.ones(8)})
    return Task(Net(), inputs, lambda out: out.float().square().mean())


@dataclass
class Output:
    """As model libraries return it."""

    loss: torch.Tensor
    logits: torch.Tensor


@workload("test/named", "keyword inputs, as a tokenizer gives them", batch=4)
def named(batch_size: int) -> Task:
    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding = torch.nn.Embedding(10, 8)
            self.linear = torch.nn.Linear(8, 10)

        def forward(self, *, labels: torch.Tensor, scale: torch.Tensor, input_ids: torch.Tensor) -> Output:
            logits = self.linear(self.embedding(input_ids) * scale)
            return Output(torch.nn.functional.cross_entropy(logits.float(), labels), logits)

    tokens = torch.randint(10, (batch_size,))
    inputs = UserDict(input_ids=tokens, labels=tokens, scale=torch.ones(8))
    return Task(Net(), inputs, lambda output: output.loss)


@pytest.mark.parametrize(
    ("dtype", "expected"), [("fp32", torch.float32), ("bf16", torch.bfloat16), ("fp16", torch.float16)]
)
def test_floating_tensors_follow_the_dtype_and_others_keep_theirs(dtype: str, expected: torch.dtype) -> None:
    step = build_step(net, StepRequest("inference", dtype, "eager", 4), CPU)
    index, more = step.task.inputs
    assert index.dtype == torch.int64
    assert more["scale"].dtype == expected
    assert step.run().dtype == expected


@pytest.mark.parametrize(("dtype", "expected"), [("fp32", torch.float32), ("bf16", torch.bfloat16)])
def test_a_model_in_another_dtype_follows_and_complex_numbers_and_fp8_stay(
    dtype: str, expected: torch.dtype
) -> None:
    @workload("test/double", "", modes=("inference",))
    def double(batch: int) -> Task:
        model = torch.nn.Linear(2, 2).double()
        model.register_buffer("turns", torch.ones(2, dtype=torch.complex64))
        model.register_buffer("small", torch.ones(2).to(torch.float8_e4m3fn))
        return Task(model, (torch.ones(batch, 2).double(),))

    step = build_step(double, StepRequest("inference", dtype, "eager", 1), CPU)
    assert step.run().dtype == expected
    assert step.model.turns.dtype == torch.complex64
    assert step.model.small.dtype == torch.float8_e4m3fn


def test_amp_keeps_fp32_weights_and_computes_in_bf16_on_the_cpu() -> None:
    step = build_step(net, StepRequest("training", "amp", "eager", 4), CPU)
    assert isinstance(step.model, torch.nn.Module)
    assert {p.dtype for p in step.model.parameters()} == {torch.float32}
    with step.precision():
        assert step.forward(*step.task.inputs).dtype == torch.bfloat16


@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
def test_inputs_by_name_are_placed_called_counted_and_compared(dtype: str) -> None:
    """Every way in which a worker touches the inputs."""
    for mode in ("inference", "training"):
        step = build_step(named, StepRequest(mode, dtype, "eager", 4), CPU)
        assert {name: tensor.dtype for name, tensor in step.task.inputs.items()} == {
            "input_ids": torch.int64,
            "labels": torch.int64,
            "scale": {"fp32": torch.float32, "bf16": torch.bfloat16}[dtype],
        }
        step.run()
        step.phases(lambda _: None)
        forward = 2 * 4 * 8 * 10
        counted = count_flops(
            lambda step=step, mode=mode: observe(step.task, step.model, mode, step.precision)
        )
        assert counted == forward * {"inference": 1, "training": 3}[mode]
        found = agreement_with_eager(step, mode, dtype)
        assert (found.agrees, found.reference) == (True, "fp64")
        off = replace(step, forward=lambda step=step, **inputs: _doubled(step.model(**inputs)))
        assert not agreement_with_eager(off, mode, dtype).agrees


def _doubled(output: Output) -> Output:
    return Output(output.loss * 2, output.logits * 2)


def test_two_builds_are_equal() -> None:
    first, second = (
        build_step(net, StepRequest("inference", "fp32", "eager", 4), CPU).run() for _ in range(2)
    )
    assert torch.equal(first, second)


def test_inference_records_no_graph_and_switches_layers_to_evaluation() -> None:
    step = build_step(net, StepRequest("inference", "fp32", "eager", 4), CPU)
    assert not step.run().requires_grad
    assert not step.model.training


def test_a_training_step_learns_and_names_its_phases() -> None:
    step = build_step(net, StepRequest("training", "fp32", "eager", 4), CPU)
    before = [p.detach().clone() for p in step.model.parameters()]
    phases: list[str] = []
    step.phases(phases.append)
    assert phases == ["forward", "backward", "optimizer"]
    assert step.model.training
    assert any(not torch.equal(a, b) for a, b in zip(before, step.model.parameters(), strict=True))


@pytest.mark.filterwarnings("default")  # a compiler's are its own
def test_the_collector_is_paused_only_while_the_compiler_is_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    running: list[bool] = []
    compiles = torch.compile

    def noting(*given: object, **options: object) -> object:
        running.append(gc.isenabled())
        return compiles(*given, **options)

    monkeypatch.setattr(torch, "compile", noting)
    build_step(net, StepRequest("inference", "fp32", "inductor", 4), CPU)
    assert (running, gc.isenabled()) == ([False], True)


@pytest.mark.filterwarnings("default")  # a compiler's are its own
@pytest.mark.parametrize(("backend", "compiled"), [("eager", 0), ("aot_eager", 1)])
def test_a_step_is_built_when_the_one_before_it_is_gone(
    backend: str, compiled: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the search for a batch size would count the memory of all models up to then, and compile for any size."""
    models, session = WeakSet[torch.nn.Module](), WorkerSession()
    before = compilation_counts().graphs

    @workload("test/cyclic", "test")
    def cyclic(batch: int) -> Task:
        assert not models
        model = torch.nn.Linear(8, 3)
        model.itself = [model]  # only the collector frees it
        models.add(model)
        return Task(model, (torch.randn(batch, 8),))

    monkeypatch.setattr("torchperf_ci.bench.worker.session._workload", lambda *_: cyclic)
    for count, size in enumerate((2, 4, 8), start=1):
        session.build("", [], "cpu", 1, mode="inference", dtype="fp32", backend=backend, batch_size=size)
        session.block(1)
        assert compilation_counts().graphs == before + count * compiled
    unfreeze()


@pytest.mark.filterwarnings("default")  # a compiler's are its own
def test_recompilations_are_counted_however_many_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    from torch._dynamo import utils

    monkeypatch.setattr(utils, "_compilation_metrics", deque(maxlen=utils.DEFAULT_COMPILATION_METRICS_LIMIT))
    build_step(net, StepRequest("inference", "fp32", "aot_eager", 4), CPU)
    utils._compilation_metrics.extend([utils.CompilationMetrics(recompile_reason="shape")] * 1000)
    counts = compilation_counts()
    assert (counts.recompiles, len(counts.recompile_reasons)) == (1000, 64)


def test_whatever_a_build_draws_from_is_the_same_in_every_process() -> None:
    """A size that another process draws otherwise would be a difference between two builds of PyTorch."""

    @workload("test/drawn", "test", modes=("inference",))
    def drawn(batch: int) -> Task:
        return Task(torch.neg, (torch.rand(batch), torch.tensor([random.random(), numpy.random.rand()])))

    steps = [build_step(drawn, StepRequest("inference", "fp32", "eager", 2), CPU) for _ in range(2)]
    assert all(map(torch.equal, *(step.task.inputs for step in steps)))


REGISTERING = """
import torch
from torchperf_ci.suite import Task, workload

torch.library.define("test_of_once::twice", "(Tensor x) -> Tensor")
torch.library.impl("test_of_once::twice", "default", lambda x: 2 * x)


@workload("mine/twice", "an operator", modes=("inference",))
def twice(batch):
    return Task(torch.ops.test_of_once.twice, (torch.ones(batch),))
"""


def test_a_suite_file_that_registers_an_operator_can_be_built_again(tmp_path: Path) -> None:
    """Else the search for a batch size would end at 1, and coverage would count nothing."""
    suite, session = tmp_path / "suite.py", WorkerSession()
    suite.write_text(REGISTERING)
    session.describe("cpu", [str(suite)])
    for size in (1, 2):
        request = {"mode": "inference", "dtype": "fp32", "backend": "eager", "batch_size": size}
        session.build("mine/twice", [str(suite)], "cpu", 1, **request)
        assert session.block(1) > 0
    unfreeze()


def test_parameters_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torchperf_ci.bench.worker.session._workload", lambda *_: net)
    request = {"mode": "inference", "dtype": "fp32", "backend": "eager", "batch_size": 4}
    assert WorkerSession().build("", [], "cpu", 1, **request).parameters == 10 * 8 + 8 * 3 + 3


def test_what_does_not_exist_is_unsupported() -> None:
    with pytest.raises(UnsupportedError, match="cpu has no tf32"):
        build_step(net, StepRequest("inference", "tf32", "eager", 4), CPU)
    only = workload("test/only", "", batch=1, modes=("inference",))(net.build)
    with pytest.raises(UnsupportedError, match="test/only has no training mode"):
        build_step(only, StepRequest("training", "fp32", "eager", 4), CPU)
    function = workload("test/f", "", batch=1)(lambda _: Task(torch.sin, (torch.ones(2),)))
    with pytest.raises(UnsupportedError, match="training needs"):
        build_step(function, StepRequest("training", "fp32", "eager", 1), CPU)


def test_a_step_whose_work_is_still_to_be_done_is_not_measured() -> None:
    def pieces(x: torch.Tensor) -> Iterator[torch.Tensor]:
        yield x + 1

    async def later(x: torch.Tensor) -> AsyncIterator[torch.Tensor]:
        yield x + 1

    for model, kind in (
        (pieces, "generator"),
        (later, "async_generator"),
        (lambda x: map(torch.sin, x), "map"),
    ):
        lazy = workload("test/lazy", "", batch=1)(lambda _, model=model: Task(model, (torch.ones(2),)))
        step = build_step(lazy, StepRequest("inference", "fp32", "eager", 1), CPU)
        with pytest.raises(TypeError, match=f"a step returned a {kind}, none of whose work is done"):
            time_first_step(CPU, step.run)


def first_step(entry: Workload, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torchperf_ci.bench.worker.session._workload", lambda *_: entry)
    session = WorkerSession()
    session.build("", [], "cpu", 1, mode="training", dtype="fp32", backend="eager", batch_size=1)
    session.first_step()


def test_training_by_a_detached_loss_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its backward has nothing to do, and its optimizer nothing to update."""

    @workload("test/detached", "", batch=1)
    def detached(batch: int) -> Task:
        model, inputs = torch.nn.Linear(2, 2), (torch.ones(batch, 2),)
        return Task(model, inputs, loss=lambda out: torch.tensor(out.sum().item(), requires_grad=True))

    with pytest.raises(ValueError, match="no parameter got a gradient: the loss is detached"):
        first_step(detached, monkeypatch)


def test_an_optimizer_in_backward_leaves_no_gradient(monkeypatch: pytest.MonkeyPatch) -> None:
    def update(parameter: torch.Tensor) -> None:
        with torch.no_grad():
            parameter -= 0.1 * parameter.grad
        parameter.grad = None

    def optimizer(parameters: Iterable[torch.nn.Parameter]) -> torch.optim.Optimizer:
        parameters = list(parameters)
        for parameter in parameters:
            parameter.register_post_accumulate_grad_hook(update)
        return torch.optim.SGD(parameters)

    @workload("test/in_backward", "", batch=1)
    def in_backward(batch: int) -> Task:
        return Task(torch.nn.Linear(2, 2), (torch.ones(batch, 2),), lambda out: out.sum(), optimizer)

    first_step(in_backward, monkeypatch)


def test_a_frozen_model_is_trained_for_the_sake_of_its_inputs(monkeypatch: pytest.MonkeyPatch) -> None:
    @workload("test/frozen", "", batch=1)
    def frozen(batch: int) -> Task:
        model, inputs = torch.nn.Linear(2, 2).requires_grad_(False), torch.ones(batch, 2, requires_grad=True)
        return Task(model, (inputs,), lambda out: out.sum())

    first_step(frozen, monkeypatch)
