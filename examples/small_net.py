"""A module of your own, in ten lines.

torchperf run --suite examples/small_net.py
"""

from __future__ import annotations

import torch

from torchperf_ci.suite import Task, workload


@workload("vision/small_net", "image classification", batch=8)
def small_net(batch: int) -> Task:
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * 32 * 32, 10))
    images = torch.randn(batch, 3, 32, 32)
    return Task(model, (images,), loss=lambda logits: logits.float().square().mean())
