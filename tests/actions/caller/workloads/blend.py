"""The workloads that measure the package under test."""

from __future__ import annotations

import torch
from blending import blend

from torchperf_ci.suite import Task, workload


@workload("caller/blend", "blend images")
def images(batch_size: int) -> Task:
    return Task(blend, (torch.randn(8 * batch_size, 3, 64, 64),))
