"""A suite in which half of the workloads fail."""

from __future__ import annotations

import torch

from torchperf_ci.suite import Task, workload


@workload("caller/add", "add two small matrices")
def add(batch_size: int) -> Task:
    return Task(torch.add, (torch.randn(batch_size, 16), torch.randn(16)))


@workload("caller/mismatch", "multiply matrices that do not fit")
def mismatch(batch_size: int) -> Task:
    return Task(torch.matmul, (torch.randn(batch_size, 16), torch.randn(15, 16)))
