"""The facts of the environment under test, and what pins it down."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from torchperf_ci.bench.worker.errors import UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Mapping

DEPENDENCIES = ("triton", "pytorch-triton-rocm", "numpy", "torchvision", "torchaudio", "transformers", "timm")
VARIABLES = (
    "OMP_WAIT_POLICY",
    "KMP_AFFINITY",
    "GOMP_CPU_AFFINITY",
    "LD_PRELOAD",
    "MALLOC_CONF",
    "MALLOC_MMAP_THRESHOLD_",
    "MALLOC_TRIM_THRESHOLD_",
)
ALLOCATOR_VARIABLES = ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF")
TYPES = ("cuda", "xpu", "mps", "cpu")


@dataclass(frozen=True)
class Environment:
    """``comparable`` must be equal for two measurements to be compared; ``observed`` is recorded beside it.

    ``dependencies`` maps the installed distributions that can move with a nightly to their versions.
    """

    device: str
    hip: bool
    torch_version: str
    torch_commit: str
    comparable: Mapping[str, str]
    observed: Mapping[str, str]
    dependencies: Mapping[str, str]


def environment(device: str) -> Environment:
    """Resolve ``auto`` and describe this interpreter; raises :class:`UnsupportedError` for an absent device."""
    resolved = _resolve(device)
    return Environment(
        device=resolved,
        hip=torch.version.hip is not None,
        torch_version=torch.__version__,
        torch_commit=torch.version.git_version or "",
        comparable=_comparable(resolved),
        observed=_observed(),
        dependencies=dict(_installed()),
    )


def _resolve(device: str) -> str:
    available = [kind for kind in TYPES if _is_available(kind)]
    if device == "auto":
        return available[0]
    if device not in available:
        msg = f"torch {torch.__version__} sees no {device} device here, only {', '.join(available)}"
        raise UnsupportedError(msg)
    return device


def _is_available(kind: str) -> bool:
    if kind == "mps":
        return torch.backends.mps.is_available()
    return kind == "cpu" or bool(getattr(torch, kind).is_available())


def _comparable(device: str) -> dict[str, str]:
    facts = {
        "torch_threads": str(torch.get_num_threads()),
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
        "sdpa_flash": str(torch.backends.cuda.flash_sdp_enabled()),
        "deterministic_algorithms": str(torch.are_deterministic_algorithms_enabled()),
    }
    variables = VARIABLES if device == "cpu" else (*VARIABLES, *ALLOCATOR_VARIABLES)
    return facts | {name: os.environ[name] for name in variables if name in os.environ}


def _observed() -> dict[str, str]:
    facts = {
        "python": platform.python_version(),
        "cuda": torch.version.cuda,
        "hip": torch.version.hip,
        "cudnn": torch.backends.cudnn.version() if torch.backends.cudnn.is_available() else None,
        "mkldnn": torch.backends.mkldnn.is_available(),
        "mkl": torch.backends.mkl.is_available(),
    }
    return {name: str(value) for name, value in facts.items() if value is not None}


def _installed() -> list[tuple[str, str]]:
    found = []
    for name in DEPENDENCIES:
        try:
            found.append((name, importlib.metadata.version(name)))
        except importlib.metadata.PackageNotFoundError:
            continue
    return found
