"""Losses and optimizers that workloads share.

A loss makes its targets from the shape of the output, on the output's device: which labels they are does not
change the work, and no step copies anything to the device. All losses are computed in fp32.
"""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor
from torch.nn import functional

# Half precision rounds small second moments to 0. With the usual epsilon of 1e-8 the update would then be 0 / 0
# or huge, and the weights soon not finite; 1e-3 bounds it at a few times the learning rate.
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
    """For models that compute their losses themselves: the mean of them."""
    return losses.float().mean()
