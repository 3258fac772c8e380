"""Training with an optimizer, a scheduler and clipped gradients of one's own.

An optimizer alone needs no step: Task(model, inputs, loss, optimizer=lambda parameters: torch.optim.Adam(parameters)).

torchperf run --suite examples/optimizer_and_scheduler.py --mode training
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from torchperf_ci.suite import Task, workload

if TYPE_CHECKING:
    from collections.abc import Callable


@workload("vision/scheduled_training", "image classification", batch=32, modes=("training",))
def scheduled_training(batch: int) -> Task:
    model = nn.Sequential(nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    # A step is taken as often as a measurement needs it, so a schedule must not end.
    scheduler = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, T_0=100)

    def step(mark: Callable[[str], None], images: Tensor, labels: Tensor) -> Tensor:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(images).float(), labels)
        mark("forward")
        loss.backward()
        mark("backward")
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
        mark("optimizer")
        return loss

    return Task(model, (torch.randn(batch, 784), torch.randint(10, (batch,))), step=step)
