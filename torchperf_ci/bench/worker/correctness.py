"""Does a step compute what its case says: in this dtype, on this device, and compiled the same as eager?"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from dataclasses import fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from torchperf_ci.bench.worker.protocol import Agreement
from torchperf_ci.bench.worker.torch_environment import UnsupportedError
from torchperf_ci.bench.worker.watching import without_compiler

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torchperf_ci.bench.worker.step import BuiltStep, Model, Precision
    from torchperf_ci.suite.workload import Task


def observe(task: Task, forward: Model, mode: str, precision: Precision) -> list[torch.Tensor]:
    """The outputs (inference), or the loss and all gradients (training) of one step without the optimizer."""
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
    """Also in what model libraries return: mappings and dataclasses of their own, which torch's tools do not open."""
    for leaf in pytree.tree_leaves(tree):
        if isinstance(leaf, torch.Tensor):
            yield leaf
        elif isinstance(leaf, Mapping):
            yield from _tensors_in(list(leaf.values()))
        elif is_dataclass(leaf) and not isinstance(leaf, type):
            yield from _tensors_in([getattr(leaf, field.name) for field in fields(leaf)])


TOLERANCE = {"fp32": 1e-4, "tf32": 2e-3, "fp16": 1e-2, "bf16": 3e-2, "amp": 3e-2}
"""Relative error that the arithmetic of a dtype explains by itself."""
NEGLIGIBLE = 1e-3
SLACK = 3.0
"""A compiled result may be this many times as far from the exact one as eager's; torch's own checks use the same."""


def agreement_with_eager(step: BuiltStep, mode: str, dtype: str) -> Agreement:
    """Compare outputs (inference) or the loss and all gradients (training).

    The reference is the same model in fp64, because two roundings of one ill-conditioned number differ without either
    being wrong; a device or model without fp64 is compared with eager itself. Raises :class:`UnsupportedError` where
    there is nothing to compare.
    """
    compiled = observe(step.task, step.forward, mode, step.precision)
    eager = observe(step.task, step.model, mode, step.precision)
    if not eager:
        msg = "what the model returns holds no tensor by which a compiled step could be compared with the eager one"
        raise UnsupportedError(msg)
    try:
        double = _in_double(step.task)
        exact, reference = observe(double, double.model, mode, nullcontext), "fp64"
    except (RuntimeError, TypeError):
        exact, reference = eager, "eager"
    what = "outputs" if mode == "inference" else "loss and gradients"
    return _agreement(compiled, eager, exact, reference, what, dtype)


def _agreement(
    compiled: Sequence[torch.Tensor],
    eager: Sequence[torch.Tensor],
    exact: Sequence[torch.Tensor],
    reference: str,
    compared: str,
    dtype: str,
) -> Agreement:
    compiled_error, eager_error = _error(compiled, exact), _error(eager, exact)
    agrees = compiled_error <= SLACK * eager_error + TOLERANCE[dtype]
    return Agreement(agrees, compiled_error, eager_error, reference, compared)


def after_first_step(step: BuiltStep, returned: object) -> list[torch.Tensor]:
    """What the first step of a workload's own has left: what it returned, and the parameters as it has moved them."""
    parameters = step.model.parameters() if isinstance(step.model, torch.nn.Module) else ()
    return [
        _comparable(tensor) for tensor in (*_tensors(returned), *(p.detach().clone() for p in parameters))
    ]


def own_step_agreement(
    compiled: Sequence[torch.Tensor], twin: Callable[[str], BuiltStep], dtype: str
) -> Agreement:
    """The same for a step of the workload's own, which cannot be taken twice: by what the first step has left.

    ``twin`` builds the eager step anew in a dtype.
    """

    def left(dtype: str) -> list[torch.Tensor]:
        step = twin(dtype)
        return after_first_step(step, step.run())

    eager = left(dtype)
    try:
        exact, reference = left("fp64"), "fp64"
    except (RuntimeError, TypeError):
        exact, reference = eager, "eager"
    return _agreement(compiled, eager, exact, reference, "results and parameters", dtype)


def _in_double(task: Task) -> Task:
    model = copy.deepcopy(task.model)
    if isinstance(model, torch.nn.Module):
        model = model.double()
    inputs = pytree.tree_map_only(
        torch.Tensor, lambda t: t.double() if t.is_floating_point() else t, task.inputs
    )
    return replace(task, model=model, inputs=inputs)


def _error(observed: Sequence[torch.Tensor], exact: Sequence[torch.Tensor]) -> float:
    """Largest ``‖observed − exact‖₂ / ‖exact‖₂`` over the tensors; infinite where only one of them is finite.

    A tensor that is zero but for rounding (a bias before a batch norm has no gradient) is measured against a
    thousandth of the largest norm instead of its own.
    """
    if [a.shape for a in observed] != [b.shape for b in exact]:
        return math.inf
    pairs = [(_comparable(a), _comparable(b)) for a, b in zip(observed, exact, strict=True)]
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
    """On the CPU in fp64, where every device can be compared; complex numbers as pairs of reals."""
    tensor = tensor.cpu()
    return (torch.view_as_real(tensor) if tensor.is_complex() else tensor).double()


TORCH_DTYPES = {"fp32": torch.float32, "tf32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
"""``amp`` chooses by the operator."""


class _OperatorResults(TorchDispatchMode):
    """Devices and floating dtypes of what operators return."""

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
    """Run ``step`` once; raise :class:`UnsupportedError` where no operator had this device, or this dtype.

    A module is moved and cast; of a function only the inputs are, and what it holds besides stays what it was.
    A function that works in another dtype in places, as for a sum, is none; nor is one without floating numbers, or
    one that cannot be watched.
    """
    seen = _OperatorResults()
    try:
        with without_compiler(_OperatorResults), seen:
            step()
    except Exception:  # noqa: BLE001  # it ran alone, so it is the looking that it does not stand
        return
    if seen.devices and device not in seen.devices:
        msg = f"all operators of this function ran on {_listed(seen.devices)}, none on {device}"
        raise UnsupportedError(msg)
    wanted = TORCH_DTYPES.get(dtype)
    if wanted and seen.dtypes and wanted not in seen.dtypes:
        found = _listed({str(one).removeprefix("torch.") for one in seen.dtypes})
        msg = f"all operators of this function ran in {found}, none in {dtype}"
        raise UnsupportedError(msg)


def _listed(names: set[str]) -> str:
    return ", ".join(sorted(names))
