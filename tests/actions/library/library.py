"""A library for PyTorch, whose pull requests are measured."""

from __future__ import annotations

import torch


def work(value: torch.Tensor) -> torch.Tensor:
    """Many small steps."""
    for _ in range(20):
        value = torch.tanh(value @ value)
    return value
