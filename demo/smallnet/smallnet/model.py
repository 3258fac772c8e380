"""Documents into classes: a sentence is a bag of words, and each one knows of those before it."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

WORDS = 10_000


class Bags(nn.Module):
    """Sums of the vectors of words: (sentences, words) into (sentences, width)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.randn(WORDS, width) / width)

    def forward(self, words: Tensor) -> Tensor:
        check(words)
        return functional.embedding_bag(words, self.table, mode="sum")


class Block(nn.Module):
    """One residual layer over (sentences, width)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(width))
        self.shift = nn.Parameter(torch.zeros(width))
        self.weight = nn.Parameter(torch.randn(width, width) / width**0.5)
        self.bias = nn.Parameter(torch.zeros(width))

    def forward(self, rows: Tensor) -> Tensor:
        normed = functional.layer_norm(rows, rows.shape[-1:], self.scale, self.shift)
        hidden = torch.addmm(self.bias, normed, self.weight)
        return rows + gelu(hidden + running_mean(rows))


class Blocks(nn.Module):
    """Layers, one after the other."""

    def __init__(self, width: int, depth: int) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block(width) for _ in range(depth))

    def forward(self, rows: Tensor) -> Tensor:
        for block in self.blocks:
            rows = block(rows)
        return rows


class Classifier(nn.Module):
    """Scores of the classes: (sentences, words) into (classes,)."""

    def __init__(self, width: int = 128, depth: int = 12, classes: int = 10) -> None:
        super().__init__()
        self.bags = Bags(width)
        self.blocks = Blocks(width, depth)
        self.out = nn.Linear(width, classes)

    def forward(self, words: Tensor) -> Tensor:
        scores: Tensor = self.out(self.blocks(self.bags(words)).mean(0))
        return scores


def check(words: Tensor) -> None:
    """Raise :class:`IndexError` for words that are not in the table."""
    if (words < 0).any() or (words >= WORDS).any():
        msg = f"words are numbers from 0 to {WORDS - 1}"
        raise IndexError(msg)


def gelu(rows: Tensor) -> Tensor:
    """Each value times the share of a standard normal distribution below it."""
    return 0.5 * rows * (1 + torch.erf(rows / 2**0.5))


def running_mean(rows: Tensor) -> Tensor:
    """The mean of each row and all before it."""
    counts = torch.arange(1, len(rows) + 1, device=rows.device, dtype=rows.dtype).unsqueeze(1)
    return rows.cumsum(0) / counts
