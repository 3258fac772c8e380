"""Does a compiled step compute what the eager one does?"""

from __future__ import annotations

import copy
import math
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch.utils import _pytree as pytree

from torchperf_ci.bench.worker.errors import UnsupportedError
from torchperf_ci.bench.worker.observation import observe
from torchperf_ci.suite.workload import Task

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torchperf_ci.bench.worker.step import Step

TOLERANCE = {"fp32": 1e-4, "tf32": 2e-3, "fp16": 1e-2, "bf16": 3e-2, "amp": 3e-2}
"""Relative error that the arithmetic of a dtype explains by itself."""
NEGLIGIBLE = 1e-3
SLACK = 3.0
"""A compiled result may be this many times as far from the exact one as eager's; torch's own checks use the same."""


@dataclass(frozen=True)
class Agreement:
    """Relative L2 errors against the reference, largest over the compared tensors."""

    agrees: bool
    compiled_error: float
    eager_error: float
    reference: str
    compared: str


def agreement(step: Step, mode: str, dtype: str) -> Agreement:
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
    compiled_error, eager_error = _error(compiled, exact), _error(eager, exact)
    return Agreement(
        compiled_error <= SLACK * eager_error + TOLERANCE[dtype],
        compiled_error,
        eager_error,
        reference,
        "outputs" if mode == "inference" else "loss and gradients",
    )


def _in_double(task: Task) -> Task:
    model = copy.deepcopy(task.model)
    if isinstance(model, torch.nn.Module):
        model = model.double()
    inputs = pytree.tree_map_only(
        torch.Tensor, lambda t: t.double() if t.is_floating_point() else t, task.inputs
    )
    return Task(model, inputs, task.loss, task.optimizer)


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
