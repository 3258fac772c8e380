"""What one step computes, without changing the model: for the agreement check and for counting FLOPs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch.utils import _pytree as pytree

if TYPE_CHECKING:
    from torchperf_ci.bench.worker.step import Model, Precision
    from torchperf_ci.suite.workload import Task


def observe(task: Task, forward: Model, mode: str, precision: Precision) -> list[torch.Tensor]:
    """The outputs (inference), or the loss and all gradients (training) of one step without the optimizer."""
    if mode == "inference":
        with torch.no_grad(), precision():
            return _tensors(forward(*task.inputs))
    assert isinstance(task.model, torch.nn.Module)
    assert task.loss is not None
    task.model.zero_grad(set_to_none=True)
    with precision():
        loss = task.loss(forward(*task.inputs))
    loss.backward()
    observed = _tensors([loss, *(p.grad for p in task.model.parameters() if p.grad is not None)])
    task.model.zero_grad(set_to_none=True)
    return observed


def _tensors(tree: object) -> list[torch.Tensor]:
    return [leaf.detach().clone() for leaf in pytree.tree_leaves(tree) if isinstance(leaf, torch.Tensor)]
