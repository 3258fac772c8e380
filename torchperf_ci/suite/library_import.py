"""Import a model library: offline, and beside a torchvision that was built for another PyTorch."""

from __future__ import annotations

import functools
import importlib
import importlib.util
import os
import warnings
from typing import Any

import torch

_OPERATORS = ("nms", "qnms")
"""Those of torchvision that it describes to PyTorch on import, and that must therefore have a schema."""


def import_library(name: str) -> Any:
    """The module ``name`` of a model library, which will download nothing."""
    os.environ.setdefault("HF_HUB_OFFLINE", "1")  # read when a library of Hugging Face is imported
    import_torchvision()
    return importlib.import_module(name)


@functools.cache
def import_torchvision() -> None:
    """Import it where it is installed, before a library does that fails with it.

    It fails where its compiled operators do not load: those of a release do not fit a nightly or a commit's build of
    PyTorch. Then they get schemas, with a warning. The models of the suite need none of them; the detection of objects
    would.
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
