from __future__ import annotations

import math
from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
import torch

from torchperf_ci.bench.worker import correctness as module
from torchperf_ci.bench.worker.correctness import agreement_with_eager
from torchperf_ci.bench.worker.step import BuiltStep, StepRequest, build_step
from torchperf_ci.bench.worker.torch_environment import UnsupportedError
from torchperf_ci.machine.devices import device as device_of
from torchperf_ci.suite import Task, Workload, workload

if TYPE_CHECKING:
    from collections.abc import Callable


@workload("test/net", "a small net with a batch norm", batch=8)
def net(batch_size: int) -> Task:
    model = torch.nn.Sequential(
        torch.nn.Linear(16, 32), torch.nn.BatchNorm1d(32), torch.nn.ReLU(), torch.nn.Linear(32, 4)
    )
    return Task(model, (torch.randn(batch_size, 16),), lambda out: out.float().square().mean())


def function(name: str, model: Callable[..., object], *inputs: torch.Tensor) -> Workload:
    return workload(name, "a plain function", modes=("inference",))(lambda _: Task(model, inputs))


def stepped(
    which: Workload, mode: str, dtype: str, forward: Callable[..., object] | None = None
) -> BuiltStep:
    step = build_step(which, StepRequest(mode, dtype, "eager", 8), device_of("cpu"))
    return replace(step, forward=forward) if forward else step


@pytest.mark.parametrize("mode", ["inference", "training"])
@pytest.mark.parametrize("dtype", ["fp32", "bf16", "amp"])
def test_eager_agrees_with_itself(mode: str, dtype: str) -> None:
    found = agreement_with_eager(stepped(net, mode, dtype), mode, dtype)
    assert found.agrees
    assert found.reference == "fp64"
    assert found.compiled_error == found.eager_error


def test_a_wrong_output_is_found() -> None:
    step = stepped(net, "inference", "fp32")
    found = agreement_with_eager(replace(step, forward=lambda x: step.model(x) * 1.01), "inference", "fp32")
    assert not found.agrees
    assert found.compiled_error == pytest.approx(0.01, rel=0.01)
    assert found.eager_error < 1e-5


def test_a_wrong_gradient_is_found_though_the_loss_is_right() -> None:
    class Doubled(torch.autograd.Function):
        @staticmethod
        def forward(ctx: object, x: torch.Tensor) -> torch.Tensor:
            return x.clone()

        @staticmethod
        def backward(ctx: object, gradient: torch.Tensor) -> torch.Tensor:
            return gradient * 2

    step = stepped(net, "training", "fp32")
    found = agreement_with_eager(
        replace(step, forward=lambda x: Doubled.apply(step.model(x))), "training", "fp32"
    )
    assert not found.agrees
    assert found.compiled_error == pytest.approx(1.0, rel=0.05)


def test_a_nan_is_not_agreement() -> None:
    step = stepped(net, "inference", "fp32")
    found = agreement_with_eager(
        replace(step, forward=lambda x: step.model(x) * math.nan), "inference", "fp32"
    )
    assert not found.agrees
    assert found.compiled_error == math.inf


def test_infinities_in_the_same_places_agree() -> None:
    masked = function("test/mask", lambda x: x.masked_fill(x > 0, -math.inf), torch.randn(8, 4))
    assert agreement_with_eager(stepped(masked, "inference", "fp32"), "inference", "fp32").agrees


@pytest.mark.parametrize(
    ("compiled", "agrees"),
    [
        (lambda x: x * 1e30 * 1e30 / 1e30, True),
        (lambda x: x * 1e30, True),
        (lambda x: x * 0, False),
        (lambda x: x * math.nan, False),
    ],
    ids=["as eager", "as fp64", "wrong", "nan"],
)
def test_an_eager_step_that_overflows_excuses_no_other_result(
    compiled: Callable[..., torch.Tensor], agrees: bool
) -> None:
    overflows = function("test/overflow", lambda x: x * 1e30 * 1e30 / 1e30, torch.ones(4))
    step = replace(stepped(overflows, "inference", "fp32"), forward=compiled)
    found = agreement_with_eager(step, "inference", "fp32")
    assert (found.eager_error, found.agrees) == (math.inf, agrees)


def test_another_shape_or_number_of_outputs_is_not_agreement() -> None:
    step = stepped(net, "inference", "fp32")
    assert not agreement_with_eager(
        replace(step, forward=lambda x: step.model(x)[:1]), "inference", "fp32"
    ).agrees
    assert not agreement_with_eager(
        replace(step, forward=lambda x: (step.model(x), x)), "inference", "fp32"
    ).agrees


def ragged(x: torch.Tensor) -> torch.Tensor:
    return torch.nested.nested_tensor([x, x[1:]], layout=torch.jagged)


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta state")
@pytest.mark.parametrize(
    "model", [torch.Tensor.to_sparse, torch.Tensor.to_sparse_csr, torch.Tensor.to_mkldnn, ragged]
)
def test_tensors_of_any_layout_are_compared(model: Callable[[torch.Tensor], torch.Tensor]) -> None:
    step = stepped(function("test/layout", model, torch.ones(3, 2)), "inference", "fp32")
    assert agreement_with_eager(step, "inference", "fp32").compiled_error == 0
    off = replace(step, forward=lambda x: model(x * 2))
    assert agreement_with_eager(off, "inference", "fp32").compiled_error == 1


def test_the_sparse_gradient_of_an_embedding_is_compared() -> None:
    @workload("test/sparse", "an embedding")
    def sparse(batch: int) -> Task:
        model = torch.nn.Embedding(10, 4, sparse=True)
        return Task(model, (torch.arange(batch),), lambda out: out.float().square().mean())

    assert agreement_with_eager(stepped(sparse, "training", "fp32"), "training", "fp32").agrees


def test_an_ill_conditioned_result_is_held_to_eagers_own_error() -> None:
    """A difference of close numbers: eager in fp32 is 10% off itself, so a compiled one may be so as well."""

    def cancel(x: torch.Tensor) -> torch.Tensor:
        return (x + 1e4) - 1e4

    step = stepped(function("test/cancel", cancel, torch.full((8,), 1.23e-3)), "inference", "fp32")
    found = agreement_with_eager(replace(step, forward=lambda x: cancel(x) * 1.05), "inference", "fp32")
    assert found.eager_error > 0.01
    assert found.agrees


@pytest.mark.parametrize("refusal", [TypeError, AssertionError, KeyError])
def test_without_fp64_the_reference_is_eager(refusal: type[Exception]) -> None:
    def single_only(x: torch.Tensor) -> torch.Tensor:
        if x.dtype == torch.float64:
            msg = "no fp64 here"
            raise refusal(msg)
        return x * 2

    single = function("test/single", single_only, torch.randn(8))
    found = agreement_with_eager(stepped(single, "inference", "fp32"), "inference", "fp32")
    assert (found.agrees, found.reference) == (True, "eager")


def test_without_fp64_a_step_with_a_state_is_held_to_how_much_it_differs_from_itself() -> None:
    state = torch.zeros(())

    def counting(x: torch.Tensor) -> torch.Tensor:
        assert x.dtype == torch.float32
        return x * state.add_(1)

    step = stepped(function("test/counting", counting, torch.ones(8)), "inference", "fp32")
    found = agreement_with_eager(step, "inference", "fp32")
    assert (found.agrees, found.reference) == (True, "eager")
    off = replace(step, forward=lambda x: counting(x) * -9)
    assert not agreement_with_eager(off, "inference", "fp32").agrees


@pytest.mark.parametrize("hooked", ["gradient", "optimizer"])
def test_hooks_of_parameters_which_no_copy_has_are_those_of_the_reference_too(hooked: str) -> None:
    """Else any compiled gradients agree with clipped ones, and those that hooks have used up with none."""
    step = stepped(net, "training", "fp32")
    assert isinstance(step.model, torch.nn.Module)
    optimizer = torch.optim.SGD(step.model.parameters(), lr=1e-3)

    def use_up(parameter: torch.Tensor) -> None:
        optimizer.step()
        parameter.grad = None

    for parameter in step.model.parameters():
        if hooked == "gradient":
            parameter.register_hook(lambda gradient: gradient.clamp(-1e-3, 1e-3))
        else:
            parameter.register_post_accumulate_grad_hook(use_up)
    found = agreement_with_eager(step, "training", "fp32")
    assert (found.agrees, found.reference) == (True, "eager")
    off = replace(step, forward=lambda x: step.model(x) * 1.5)
    assert not agreement_with_eager(off, "training", "fp32").agrees


def test_the_check_leaves_no_gradients_behind() -> None:
    step = stepped(net, "training", "fp32")
    agreement_with_eager(step, "training", "fp32")
    assert isinstance(step.model, torch.nn.Module)
    assert all(p.grad is None for p in step.model.parameters())
    assert step.precision is nullcontext


def test_every_dtype_has_a_tolerance() -> None:
    from torchperf_ci.options.option import DTYPES

    assert set(module.TOLERANCE) == set(DTYPES)


def test_where_nothing_can_be_compared_nothing_is_said_to_agree() -> None:
    step = stepped(function("test/size", lambda x: x.numel(), torch.ones(2)), "inference", "fp32")
    with pytest.raises(UnsupportedError, match="holds no tensor"):
        agreement_with_eager(step, "inference", "fp32")
