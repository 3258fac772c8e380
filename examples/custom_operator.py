"""A micro-benchmark of an operator of one's own, beside the operators of PyTorch that do the same.

torchperf run --suite examples/custom_operator.py
"""

from __future__ import annotations

import torch
from torch import Tensor

from torchperf_ci.suite import Task, workload


@torch.library.custom_op("examples::scaled_relu", mutates_args=())
def scaled_relu(x: Tensor, scale: float) -> Tensor:
    """Here stands the call of a kernel: ``torch.ops.my_library.scaled_relu(x, scale)``."""
    return x.clamp(min=0).mul_(scale)


@scaled_relu.register_fake
def _(x: Tensor, scale: float) -> Tensor:  # noqa: ARG001  # as the operator has it
    """The shape of the result, for a compiler."""
    return torch.empty_like(x)


@workload("operators/scaled_relu_1024x1024", "custom operator", modes=("inference",))
def custom(batch: int) -> Task:
    return Task(scaled_relu, (torch.randn(batch, 1024, 1024), 0.5))


@workload("operators/scaled_relu_1024x1024_of_torch", "custom operator", modes=("inference",))
def reference(batch: int) -> Task:
    return Task(lambda x, scale: torch.relu(x) * scale, (torch.randn(batch, 1024, 1024), 0.5))
