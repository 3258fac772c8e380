"""What a compiler is good at: a long elementwise chain. The backend is an option, not a part of the workload.

torchperf run --suite examples/compiled.py --backend eager,inductor,inductor:max-autotune
"""

from __future__ import annotations

import torch
from torch import Tensor

from torchperf_ci.suite import Task, workload


def gelu_chain(x: Tensor) -> Tensor:
    for _ in range(8):
        x = 0.5 * x * (1 + torch.tanh(0.79788456 * (x + 0.044715 * x**3)))
    return x


@workload("operators/gelu_chain_256x1024", "elementwise chain", modes=("inference",))
def chain(batch: int) -> Task:
    return Task(gelu_chain, (torch.randn(batch, 256, 1024),))
