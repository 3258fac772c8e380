"""Import a model library without network access, even if torchvision was built for another PyTorch."""

from __future__ import annotations

import functools
import importlib
import importlib.util
import os
import warnings
from typing import Any

import torch

_OPERATORS = ("nms", "qnms")
"""Operators of torchvision that its Python code registers more about on import, and that therefore need a schema."""


def import_library(name: str) -> Any:
    """Import the module ``name`` of a model library so that it downloads nothing."""
    os.environ.setdefault("HF_HUB_OFFLINE", "1")  # read when a Hugging Face library is imported
    import_torchvision()
    return importlib.import_module(name)


@functools.cache
def import_torchvision() -> None:
    """Import torchvision, if installed, before another library does and fails.

    The import fails if its compiled operators do not load: those of a release do not fit a nightly build of PyTorch or
    one of a commit. In that case only schemas are defined for them, with a warning. The models of the suite need none
    of these operators; object detection would.
    """
    if not importlib.util.find_spec("torchvision"):
        return
    try:
        importlib.import_module("torchvision")
    except RuntimeError as error:
        if "torchvision::" not in str(error):
            raise
        warnings.warn(
            f"torchvision's compiled operators do not load ({error}): going on without them", stacklevel=3
        )
        for operator in _OPERATORS:
            schema = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
            torch.library.define(f"torchvision::{operator}", schema)
