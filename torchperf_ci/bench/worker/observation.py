"""What one step computes, without changing the model: for the agreement check and for counting FLOPs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
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
    return [tensor.detach().clone() for tensor in _found(tree)]


def _found(tree: object) -> Iterator[torch.Tensor]:
    """Also in what model libraries return: mappings and dataclasses of their own, which torch's tools do not open."""
    for leaf in pytree.tree_leaves(tree):
        if isinstance(leaf, torch.Tensor):
            yield leaf
        elif isinstance(leaf, Mapping):
            yield from _found(list(leaf.values()))
        elif is_dataclass(leaf) and not isinstance(leaf, type):
            yield from _found([getattr(leaf, field.name) for field in fields(leaf)])
