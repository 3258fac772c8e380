"""What is measured of smallnet: the whole classifier, and its two halves."""

from __future__ import annotations

import torch
from smallnet.model import WORDS, Bags, Blocks, Classifier

from torchperf_ci.suite import Task, workload

WIDTH = 128
SENTENCE = 256


def _sentences(batch: int) -> torch.Tensor:
    return torch.randint(WORDS, (batch, SENTENCE))


@workload("smallnet/classifier", "document classification", batch=128, modes=("inference",))
def classifier(batch: int) -> Task:
    return Task(Classifier(WIDTH), (_sentences(batch),))


@workload("smallnet/bags", "look-up of words", batch=128, modes=("inference",))
def bags(batch: int) -> Task:
    return Task(Bags(WIDTH), (_sentences(batch),))


@workload("smallnet/blocks", "residual layers", batch=128, modes=("inference",))
def blocks(batch: int) -> Task:
    return Task(Blocks(WIDTH, depth=12), (torch.randn(batch, WIDTH),))
