"""Every built-in workload builds, runs, trains and repeats itself, in fp32 and bf16."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
import torch
from torch.utils._pytree import tree_leaves, tree_map

from torchperf_ci.suite import Task, Workload
from torchperf_ci.suite.registry import catalogue

if TYPE_CHECKING:
    from collections.abc import Iterator

CATALOGUE = catalogue()
MODELS = [CATALOGUE.workloads[name] for name in CATALOGUE.suites["models"]]
DOMAIN = [entry for entry in MODELS if not entry.requires]
OPERATORS = [CATALOGUE.workloads[name] for name in CATALOGUE.suites["operators"]]
TRAINED = [entry for entry in DOMAIN if "training" in entry.modes]
ALL = [*DOMAIN, *OPERATORS]
DTYPES = (torch.float32, torch.bfloat16)
CROPPED = {"vision/pytorch_unet": 32, "vision/resnet18": 64}
"""Pixels a side in bf16, which many CPUs only emulate: these convolutions then take thirty times as long."""


def built(entry: Workload, batch: int, dtype: torch.dtype) -> Task:
    """The task as the worker prepares it on the CPU."""

    def cast(leaf: object) -> object:
        return leaf.to(dtype) if isinstance(leaf, torch.Tensor) and leaf.is_floating_point() else leaf

    torch.manual_seed(0)
    task = entry.build(batch)
    model = task.model.to(dtype) if isinstance(task.model, torch.nn.Module) else task.model
    inputs = tree_map(cast, task.inputs)
    if dtype is torch.bfloat16 and (side := CROPPED.get(entry.name)):
        inputs = tree_map(lambda image: image[..., :side, :side], inputs)
    return Task(model, inputs, task.loss, task.optimizer)


def inferred(task: Task) -> list[torch.Tensor]:
    if isinstance(task.model, torch.nn.Module):
        task.model.eval()
    with torch.no_grad(), inputs_left_as_they_are(task):
        return tree_leaves(task.model(*task.inputs))


@contextmanager
def inputs_left_as_they_are(task: Task) -> Iterator[None]:
    """The next step would measure other inputs."""
    before = tree_map(torch.clone, task.inputs)
    yield
    torch.testing.assert_close(task.inputs, before, rtol=0, atol=0)


def ids(entry: object) -> str:
    return entry.name if isinstance(entry, Workload) else str(entry).removeprefix("torch.")


@pytest.mark.parametrize("entry", ALL, ids=ids)
def test_inference_gives_finite_numbers_repeats_exactly_and_depends_on_the_inputs(entry):
    """On the inputs, else the agreement of eager and compiled code would prove nothing."""
    task, again = (built(entry, 1, torch.float32) for _ in range(2))
    outputs = inferred(task)
    assert outputs
    assert all(torch.isfinite(output).all() for output in outputs)
    torch.testing.assert_close(inferred(again), outputs, rtol=0, atol=0)
    if entry in DOMAIN:
        torch.manual_seed(1)
        others = inferred(replace(task, inputs=entry.build(1).inputs))
        one, other = (torch.cat([part.flatten() for part in parts]) for parts in (outputs, others))
        assert (one - other).norm() > 5e-3 * one.norm()


@pytest.mark.parametrize("entry", ALL, ids=ids)
def test_inference_gives_finite_numbers_in_bf16(entry):
    """That it repeats is seen in fp32: what is drawn in it is cast."""
    outputs = inferred(built(entry, 1, torch.bfloat16))
    assert outputs
    assert all(torch.isfinite(output).all() for output in outputs)


@pytest.mark.parametrize("dtype", DTYPES, ids=ids)
@pytest.mark.parametrize("entry", TRAINED, ids=ids)
def test_a_training_step_is_no_draw_and_moves_every_trainable_parameter(entry, dtype):
    on_cpus = min(2, entry.batch_sizes["training"])  # many CPUs only emulate bf16, which takes long
    task = built(entry, 2 if dtype is torch.float32 else on_cpus, dtype)
    model = task.model.train()
    optimizer = task.optimizer(model.parameters())
    with inputs_left_as_they_are(task):
        losses = [task.loss(model(*task.inputs)) for _ in range(2 if dtype is torch.float32 else 1)]
    loss = losses[-1]
    assert (loss.dtype, loss.shape) == (torch.float32, ())
    torch.testing.assert_close(losses[0], loss)
    loss.backward()
    optimizer.step()
    trainable = [parameter for parameter in model.parameters() if parameter.requires_grad]
    assert trainable
    assert all(parameter.grad is not None for parameter in trainable)
    assert all(torch.isfinite(parameter).all() for parameter in trainable)
    if dtype is torch.float32:
        assert task.loss(model(*task.inputs)) < loss


@pytest.mark.parametrize("entry", ALL, ids=ids)
def test_the_batch_size_scales_the_inputs(entry):
    def elements(batch: int) -> int:
        with torch.device("meta"):
            return sum(leaf.numel() for leaf in tree_leaves(entry.build(batch).inputs))

    assert elements(1) < elements(2)


def test_every_workload_has_a_default_batch_size_for_each_mode_and_device_class():
    for entry in ALL:
        for mode in entry.modes:
            sizes = entry.batch_sizes
            assert 1 <= sizes[mode] <= sizes.get(f"{mode}/accelerator", sizes[mode])
