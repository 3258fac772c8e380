"""A package under test."""

from __future__ import annotations

import torch


def blend(images: torch.Tensor) -> torch.Tensor:
    """Blend each image with its mirror image."""
    return torch.lerp(images, images.flip(-1), 0.3)
