"""Building blocks that workloads of several domains share."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from torch import Tensor, nn
from torch.nn import functional

if TYPE_CHECKING:
    from collections.abc import Callable


class Residual(nn.Module):
    """``x + body(x)``."""

    def __init__(self, *body: nn.Module) -> None:
        super().__init__()
        self.body = nn.Sequential(*body)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = x + self.body(x)
        return out


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
        out: Tensor = self.project_out(mixed.transpose(1, 2).flatten(2))
        return out


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
