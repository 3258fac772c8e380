"""Layers, losses and optimizers that workloads of several domains share.

A loss creates its targets from the shape of the output, on the output's device. Their values do not affect the amount
of work, and no step has to copy them to the device. All losses are computed in fp32.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional


class Residual(nn.Module):
    """``x + body(x)``."""

    def __init__(self, *body: nn.Module) -> None:
        super().__init__()
        self.body = nn.Sequential(*body)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.body(x)


class Transpose(nn.Module):
    """Swap the last two dimensions: between (batch, time, channels) and (batch, channels, time)."""

    def forward(self, x: Tensor) -> Tensor:
        return x.transpose(-1, -2)


class SelfAttention(nn.Module):
    """Multi-head self-attention over (batch, tokens, width)."""

    def __init__(self, width: int, heads: int, *, causal: bool = False) -> None:
        super().__init__()
        self.heads = heads
        self.causal = causal
        self.project_in = nn.Linear(width, 3 * width)
        self.project_out = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        queries, keys, values = self.project_in(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(queries, keys, values, is_causal=self.causal)
        return self.project_out(mixed.transpose(1, 2).flatten(2))


def mlp(*widths: int, activation: Callable[[], nn.Module] = nn.ReLU) -> nn.Sequential:
    """Linear layers of the given widths with an activation between them and none after the last."""
    layers = [layer for narrow, wide in pairwise(widths) for layer in (nn.Linear(narrow, wide), activation())]
    return nn.Sequential(*layers[:-1])


def transformer_block(width: int, heads: int, *, causal: bool = False) -> nn.Sequential:
    """A pre-norm Transformer block with GELU and a feed-forward layer of four times the width."""
    return nn.Sequential(
        Residual(nn.LayerNorm(width), SelfAttention(width, heads, causal=causal)),
        Residual(nn.LayerNorm(width), mlp(width, 4 * width, width, activation=nn.GELU)),
    )


# Half precision rounds small second moments to 0. With the usual epsilon of 1e-8 the update would then be 0 / 0
# or huge, and the weights would soon not be finite; 1e-3 limits the update to a few times the learning rate.
ADAM_EPSILON = 1e-3
adamw = partial(torch.optim.AdamW, lr=1e-4, eps=ADAM_EPSILON)
momentum_sgd = partial(torch.optim.SGD, lr=1e-3, momentum=0.9)


def cross_entropy(logits: Tensor) -> Tensor:
    """Cross entropy of logits (..., classes) against the labels 0, 1, 2, … modulo the number of classes."""
    rows = logits.flatten(0, -2).float()
    labels = torch.arange(rows.shape[0], device=rows.device) % rows.shape[1]
    return functional.cross_entropy(rows, labels)


def binary_cross_entropy(logits: Tensor) -> Tensor:
    """Binary cross entropy of logits of any shape against alternating labels 0, 1, 0, …"""
    flat = logits.flatten().float()
    labels = torch.arange(flat.shape[0], device=flat.device) % 2
    return functional.binary_cross_entropy_with_logits(flat, labels.float())


def mean_square(prediction: Tensor) -> Tensor:
    """Mean squared error against a target of zeros."""
    return prediction.float().square().mean()


def mean(losses: Tensor) -> Tensor:
    """Mean of the losses, for models that compute their losses themselves."""
    return losses.float().mean()
