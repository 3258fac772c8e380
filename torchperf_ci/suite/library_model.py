"""Workloads from a model library's constructor and its arguments, with random weights and no downloads.

The library is imported when a workload is built, not when it is listed.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import os
import warnings
from typing import TYPE_CHECKING, Any

import torch
from torch.utils import _pytree as pytree

from torchperf_ci.suite.building_blocks import mean_square, momentum_sgd
from torchperf_ci.suite.workload import Loss, Task, Workload, per_device, workload

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Inputs = Mapping[str, torch.Tensor] | tuple[torch.Tensor, ...]


_OPERATORS = ("nms", "qnms")
"""Operators of torchvision that need a schema, because its Python code refers to them on import."""


def import_library(name: str) -> Any:
    """Import the module ``name`` of a model library so that it downloads nothing."""
    os.environ.setdefault("HF_HUB_OFFLINE", "1")  # read when a Hugging Face library is imported
    import_torchvision()
    return importlib.import_module(name)


@functools.cache
def import_torchvision() -> None:
    """Import torchvision, if installed, before another library does and fails.

    The import fails if its compiled operators do not load: those of a release do not fit a nightly build of PyTorch or
    one of a commit. In that case only schemas are defined for them, with a warning. The models of the suite need none
    of these operators; object detection would.
    """
    if not importlib.util.find_spec("torchvision"):
        return
    try:
        importlib.import_module("torchvision")
    except RuntimeError as error:
        if "torchvision::" not in str(error):
            raise
        warnings.warn(
            f"torchvision's compiled operators do not load ({error}): going on without them", stacklevel=3
        )
        for operator in _OPERATORS:
            schema = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
            torch.library.define(f"torchvision::{operator}", schema)


_BATCH = per_device(cpu=2, accelerator=32)
"""At least two samples, because batch normalization cannot be trained on a single one."""


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
    """Return a workload for the model that ``constructor``, such as ``timm.create_model``, builds from ``arguments``.

    ``inputs`` returns the inputs for a batch size, with samples along the first dimension. Dropout is disabled.
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
    """Return a function from batch size to normal random inputs: one tensor for each of the sample ``sizes``."""
    return lambda batch: tuple(torch.randn(batch, *size) for size in sizes)


def regression_loss(output: Any) -> torch.Tensor:
    """Sum of the mean squares of all tensors that the model returns."""
    tensors = [leaf for leaf in pytree.tree_leaves(output) if isinstance(leaf, torch.Tensor)]
    return torch.stack([mean_square(tensor) for tensor in tensors]).sum()


def _without_dropout(model: torch.nn.Module) -> torch.nn.Module:
    """Return the model after setting all its rates of dropout and of stochastic depth to 0."""
    for module in model.modules():
        for rate in ("p", "drop_prob", "drop_rate"):
            if isinstance(getattr(module, rate, None), float):
                setattr(module, rate, 0.0)
    return model
