"""A suite that takes no time."""

from __future__ import annotations

import torch

from torchperf_ci.suite import Task, workload


@workload("caller/matmul", "multiply two small matrices")
def matmul(batch_size: int) -> Task:
    return Task(torch.matmul, (torch.randn(batch_size, 16, 16), torch.randn(16, 16)))
