"""Check that a step computes what its case says: in this dtype, on this device, and compiled the same as eager."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import fields, is_dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from torchperf_ci.bench.worker.protocol import Agreement
from torchperf_ci.bench.worker.torch_environment import UnsupportedError, without_compiler

if TYPE_CHECKING:
    from torchperf_ci.bench.worker.step import BuiltStep, Model, Precision
    from torchperf_ci.suite.workload import Task


def observe(task: Task, forward: Model, mode: str, precision: Precision) -> list[torch.Tensor]:
    """Run one step without the optimizer; return its outputs (inference) or loss and gradients (training)."""
    if mode == "inference":
        with torch.no_grad(), precision():
            return _tensors(task.call(forward))
    assert isinstance(task.model, torch.nn.Module)
    assert task.loss is not None
    task.model.zero_grad(set_to_none=True)
    with precision():
        loss = task.loss(task.call(forward))
    loss.backward()
    observed = _tensors([loss, *(p.grad for p in task.model.parameters() if p.grad is not None)])
    task.model.zero_grad(set_to_none=True)
    return observed


def _tensors(tree: object) -> list[torch.Tensor]:
    return [tensor.detach().clone() for tensor in _tensors_in(tree)]


def _tensors_in(tree: object) -> Iterator[torch.Tensor]:
    """Yield all tensors, also from mappings and dataclasses of model libraries that torch's pytree does not open."""
    for leaf in pytree.tree_leaves(tree):
        if isinstance(leaf, torch.Tensor):
            yield leaf
        elif isinstance(leaf, Mapping):
            yield from _tensors_in(list(leaf.values()))
        elif is_dataclass(leaf) and not isinstance(leaf, type):
            yield from _tensors_in([getattr(leaf, field.name) for field in fields(leaf)])


TOLERANCE = {"fp32": 1e-4, "tf32": 2e-3, "fp16": 1e-2, "bf16": 3e-2, "amp": 3e-2}
"""Relative error that rounding in a dtype explains."""
NEGLIGIBLE = 1e-3
SLACK = 3.0
"""How many times the eager error a compiled error may be; torch's own checks use the same factor."""


def agreement_with_eager(step: BuiltStep, mode: str, dtype: str) -> Agreement:
    """Compare the compiled step's outputs (inference) or loss and gradients (training) with the eager step's.

    The reference is the same model in fp64, because two roundings of an ill-conditioned number differ without either
    being wrong. Without fp64 support in the device or model, the reference is eager itself. Raises
    :class:`UnsupportedError` if there is nothing to compare.
    """
    compiled = observe(step.task, step.forward, mode, step.precision)

    def in_double() -> list[torch.Tensor]:
        double = _in_double(step.task)
        return observe(double, double.model, mode, nullcontext)

    what = "outputs" if mode == "inference" else "loss and gradients"
    in_eager = partial(observe, step.task, step.model, mode, step.precision)
    return _agreement(compiled, in_eager, in_double, what, dtype)


def _agreement(
    compiled: Sequence[torch.Tensor],
    in_eager: Callable[[], Sequence[torch.Tensor]],
    in_double: Callable[[], Sequence[torch.Tensor]],
    compared: str,
    dtype: str,
) -> Agreement:
    eager = in_eager()
    if not eager:
        msg = "what the step returns holds no tensor by which a compiled step could be compared with the eager one"
        raise UnsupportedError(msg)
    try:
        exact, reference = in_double(), "fp64"
    except Exception:  # noqa: BLE001  # a model refuses fp64 in its own way
        # Once more, because a step with a state, or one that draws random numbers, differs from itself.
        exact, reference = in_eager(), "eager"
    compiled_error, eager_error = _error(compiled, exact), _error(eager, exact)
    if math.isfinite(eager_error):
        agrees = compiled_error <= SLACK * eager_error + TOLERANCE[dtype]
    else:  # eager overflows where fp64 does not, and no multiple of that says what the compiled step may do
        agrees = min(compiled_error, _error(compiled, eager)) <= TOLERANCE[dtype]
    return Agreement(agrees, compiled_error, eager_error, reference, compared)


def after_first_step(step: BuiltStep, returned: object) -> list[torch.Tensor]:
    """Return the results of a custom step's first run: the tensors that it returned and the updated parameters."""
    return [_comparable(tensor) for tensor in _tensors([returned, *parameters_of(step.model)])]


def custom_step_agreement(
    step: BuiltStep, compiled: Sequence[torch.Tensor], twin: Callable[[str], BuiltStep], dtype: str
) -> Agreement:
    """Compare the results of a compiled custom step with eager's, both after their first run.

    A custom step changes its model, so it cannot be repeated; ``twin`` builds a fresh eager step in a given dtype.
    Raises ValueError if that has the same parameters, which would be cast for the comparison and stay so.
    """

    def left(dtype: str) -> list[torch.Tensor]:
        fresh = twin(dtype)
        if {*parameters_of(fresh.model)} & {*parameters_of(step.model)}:
            msg = (
                "the workload's function returns the same model at each call: make the model in the function"
            )
            raise ValueError(msg)
        return after_first_step(fresh, fresh.run())

    return _agreement(compiled, lambda: left(dtype), lambda: left("fp64"), "results and parameters", dtype)


def _in_double(task: Task) -> Task:
    if any(one._backward_hooks or one._post_accumulate_grad_hooks for one in parameters_of(task.model)):  # noqa: SLF001
        msg = "a copy of a parameter lacks its hooks, such as those that clip its gradient or step its optimizer"
        raise ValueError(msg)
    model = copy.deepcopy(task.model)
    if isinstance(model, torch.nn.Module):
        model = model.double()
    inputs = pytree.tree_map_only(
        torch.Tensor, lambda t: t.double() if t.is_floating_point() else t, task.inputs
    )
    return replace(task, model=model, inputs=inputs)


def _error(observed: Sequence[torch.Tensor], exact: Sequence[torch.Tensor]) -> float:
    """Largest ``‖observed − exact‖₂ / ‖exact‖₂`` over the tensors; infinite if values differ where one is not finite.

    A tensor that is zero except for rounding (such as the gradient of a bias before a batch norm) is divided by a
    thousandth of the largest norm instead of its own.
    """
    observed, exact = ([_comparable(tensor) for tensor in side] for side in (observed, exact))
    if [a.shape for a in observed] != [b.shape for b in exact]:
        return math.inf
    pairs = [*zip(observed, exact, strict=True)]
    norms = [float(b.nan_to_num(0.0, 0.0, 0.0).norm()) for _, b in pairs]
    floor = NEGLIGIBLE * max(norms, default=0.0)
    errors = (
        _difference(a, b) / (max(norm, floor) or 1.0) for (a, b), norm in zip(pairs, norms, strict=True)
    )
    return max(errors, default=0.0)


def _difference(observed: torch.Tensor, exact: torch.Tensor) -> float:
    same = (observed == exact) | (observed.isnan() & exact.isnan())
    difference = torch.where(same, torch.zeros_like(exact), observed - exact)
    return float(difference.norm()) if bool(difference.isfinite().all()) else math.inf


def _comparable(tensor: torch.Tensor) -> torch.Tensor:
    """Return the values on the CPU in fp64, so that all devices can be compared; complex numbers as pairs of reals.

    Few operators take tensors of other layouts, such as the sparse gradient of an embedding, or nested ones.
    """
    if tensor.is_nested:
        tensor = torch.cat([part.flatten() for part in tensor.unbind()])
    tensor = (tensor if tensor.layout == torch.strided else tensor.to_dense()).cpu()
    return (torch.view_as_real(tensor) if tensor.is_complex() else tensor).double()


def parameter_versions(model: Model) -> list[int]:
    """Return how often each parameter has been modified in place; none for a plain function."""
    return [parameter._version for parameter in parameters_of(model)]  # noqa: SLF001


def parameters_of(model: Model) -> list[torch.nn.Parameter]:
    """Return the parameters of the model; none of a plain function."""
    return [*model.parameters()] if isinstance(model, torch.nn.Module) else []


def check_training(model: Model, before: list[int]) -> None:
    """Raise ValueError if a training step did nothing after forward: no parameter was modified or has a gradient.

    ``before`` are the versions of the parameters. An optimizer that runs during backward leaves no gradient. Of a model
    that is frozen as a whole, backward may be measured for the inputs' sake.
    """
    assert isinstance(model, torch.nn.Module)
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    if trained and parameter_versions(model) == before and all(one.grad is None for one in trained):
        msg = "no parameter got a gradient: the loss is detached from the model, as is what torch.tensor(x) returns"
        raise ValueError(msg)


TORCH_DTYPES = {"fp32": torch.float32, "tf32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
"""The dtypes that operators must work in. ``amp`` is missing because it chooses per operator."""


class _OperatorResults(TorchDispatchMode):
    """Records the devices and floating-point dtypes of the tensors that operators return."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.devices: set[str] = set()
        self.dtypes: set[torch.dtype] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        results = func(*args, **(kwargs or {}))
        for tensor in pytree.tree_leaves(results):
            if isinstance(tensor, torch.Tensor):
                self.devices.add(tensor.device.type)
                if tensor.is_floating_point():
                    self.dtypes.add(tensor.dtype)
        return results


def check_dtype(step: Callable[[], object], dtype: str, device: str) -> None:
    """Run ``step`` once; raise :class:`UnsupportedError` if no operator ran on this device, or none in this dtype.

    A module is moved and cast as a whole, but of a function only the inputs are, so tensors that it holds itself keep
    their device and dtype. A function that uses another dtype in places, such as for a sum, is accepted. So is one
    without floating-point tensors, and one that fails while being observed.
    """
    seen = _OperatorResults()
    try:
        with without_compiler(_OperatorResults), seen:
            step()
    except Exception:  # noqa: BLE001  # the step ran without observation, so only the observation fails
        return
    if seen.devices and device not in seen.devices:
        msg = f"all operators of this function ran on {', '.join(sorted(seen.devices))}, none on {device}"
        raise UnsupportedError(msg)
    wanted = TORCH_DTYPES.get(dtype)
    if wanted and seen.dtypes and wanted not in seen.dtypes:
        dtypes = ", ".join(sorted(str(used).removeprefix("torch.") for used in seen.dtypes))
        raise UnsupportedError(f"all operators of this function ran in {dtypes}, none in {dtype}")
