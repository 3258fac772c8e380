"""One narrow layer over many rows, so that a step of quadratic cost stands out."""

from __future__ import annotations

import torch
from smallnet.model import Blocks

from torchperf_ci.suite import Task, workload

WIDTH = 8
ROWS = 512


@workload("smallnet/narrow", "residual layer", batch=ROWS, modes=("inference",))
def narrow(batch: int) -> Task:
    return Task(Blocks(WIDTH, depth=1), (torch.randn(batch, WIDTH),))
