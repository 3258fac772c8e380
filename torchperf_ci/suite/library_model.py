"""Models that a library makes by name and arguments: random weights, nothing downloaded.

The library is imported when a workload is built, never when it is listed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch.utils import _pytree as pytree

from torchperf_ci.suite.building_blocks import mean_square, momentum_sgd
from torchperf_ci.suite.library_import import import_library
from torchperf_ci.suite.workload import Task, Workload, per_device, workload

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from torchperf_ci.suite.workload import Loss

    Inputs = Mapping[str, torch.Tensor] | tuple[torch.Tensor, ...]

_BATCH = per_device(cpu=2, accelerator=32)
"""Two samples at least: the variance of one is nothing that a batch normalisation could learn from."""


def library_model(
    name: str,
    task: str,
    constructor: str,
    arguments: Mapping[str, object],
    inputs: Callable[[int], Inputs],
    *,
    requires: tuple[str, ...],
    loss: Loss,
) -> Workload:
    """A workload from what ``constructor``, such as ``timm.create_model``, makes of the arguments.

    ``inputs`` gives those for a batch size, samples along the first dimension. What draws at random is off.
    """

    def build(batch: int) -> Task:
        module, _, function = constructor.rpartition(".")
        model = _without_dropout(getattr(import_library(module), function)(**arguments))
        given = inputs(batch)
        facts = {
            "constructor": constructor,
            **{key: value for key, value in arguments.items() if value is not None},
            "inputs": [list(tensor.shape[1:]) for tensor in pytree.tree_leaves(given)],
            "parameters": [list(parameter.shape) for parameter in model.parameters()],
        }
        return Task(model, given, loss, momentum_sgd, config=facts)

    return workload(name, task, batch=_BATCH, origin=requires[0], requires=requires)(build)


def noise(*sizes: tuple[int, ...]) -> Callable[[int], tuple[torch.Tensor, ...]]:
    """Inputs of normal random numbers: one tensor for each size of a sample."""
    return lambda batch: tuple(torch.randn(batch, *size) for size in sizes)


def regression_loss(output: Any) -> torch.Tensor:
    """Mean squared error of everything that the model returns against zeros."""
    tensors = [leaf for leaf in pytree.tree_leaves(output) if isinstance(leaf, torch.Tensor)]
    return torch.stack([mean_square(tensor) for tensor in tensors]).sum()


def _without_dropout(model: torch.nn.Module) -> torch.nn.Module:
    """The same model, whose dropouts, of activations and of whole paths, drop nothing."""
    for module in model.modules():
        for rate in ("p", "drop_prob"):
            if isinstance(getattr(module, rate, None), float):
                setattr(module, rate, 0.0)
    return model
