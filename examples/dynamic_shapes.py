"""Shapes that follow from the data: tokens are sorted out by a mask, so that what is computed on differs in size.

With --backend inductor, records tell how often the compiler broke the graph, and how often it compiled again.

torchperf run --suite examples/dynamic_shapes.py --backend eager,inductor
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from torchperf_ci.suite import Task, workload


class EarlyExit(nn.Module):
    """The second layer sees only the tokens of which the first one is not sure."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = (
            nn.Linear(64, 8),
            nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 8)),
        )

    def forward(self, tokens: Tensor) -> Tensor:
        scores: Tensor = self.first(tokens)
        unsure = scores.float().softmax(-1).amax(-1) < 0.3  # how many, nobody knows before
        return scores.index_put((unsure,), self.second(tokens[unsure]))


@workload("language/early_exit", "token classification", batch=8)
def early_exit(batch: int) -> Task:
    return Task(
        EarlyExit(), (torch.randn(batch * 128, 64),), loss=lambda scores: scores.float().square().mean()
    )
