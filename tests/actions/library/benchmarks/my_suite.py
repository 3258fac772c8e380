"""The suite that measures the library's pull requests."""

from __future__ import annotations

import torch
from library import work

from torchperf_ci.suite import Task, workload


@workload("caller/library", "the library's work")
def library(batch_size: int) -> Task:
    return Task(work, (torch.randn(batch_size, 32, 32),))
