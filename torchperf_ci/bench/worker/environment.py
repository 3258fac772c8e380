"""The facts of the environment under test, and what pins it down."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from torchperf_ci.bench.worker.errors import UnsupportedError
from torchperf_ci.machine.devices import DEVICE_TYPES
from torchperf_ci.machine.devices.base import Seen

if TYPE_CHECKING:
    from collections.abc import Mapping

DEPENDENCIES = (
    *("triton", "pytorch-triton", "triton-rocm", "pytorch-triton-rocm", "triton-xpu", "pytorch-triton-xpu"),
    *("nvidia-cudnn-cu12", "nvidia-cudnn-cu13", "nvidia-cublas-cu12", "nvidia-cublas"),
    *("numpy", "torchvision", "torchaudio", "transformers", "timm"),
)
VARIABLES = re.compile(
    "OMP_(WAIT_POLICY|PROC_BIND|PLACES|DYNAMIC|SCHEDULE)|KMP_.+|GOMP_.+|MKL_(?!NUM_THREADS).+|LD_PRELOAD|MALLOC_.+"
    "|ATEN_CPU_CAPABILITY|ONEDNN_.+|DNNL_.+|LRU_CACHE_CAPACITY|THP_MEM_ALLOC_ENABLE"
    "|TORCHINDUCTOR_(?!COMPILE_THREADS).+|TORCH_COMPILE_.+|TORCHDYNAMO_.+"
)
"""What steers kernels, threads and allocators on any device, less what every worker is given."""
ACCELERATOR_VARIABLES = re.compile(
    "NVIDIA_TF32_OVERRIDE|CUDA_(LAUNCH_BLOCKING|MODULE_LOADING|DEVICE_MAX_CONNECTIONS)|CUBLAS(LT)?_.+|CUDNN_.+"
    "|TORCH_(ALLOW_TF32_CUBLAS_OVERRIDE|CUDNN_.+|BLAS_.+)|PYTORCH_(TUNABLEOP_.+|.*ALLOC_CONF|NO_.+_MEMORY_CACHING)"
    "|TRITON_.+|MIOPEN_.+|HSA_.+|ROCBLAS_.+|HIPBLASLT_.+|HIP_(LAUNCH_BLOCKING|FORCE_DEV_KERNARG)"
    "|GPU_MAX_HW_QUEUES|AMD_(DIRECT_DISPATCH|SERIALIZE_.+)|PYTORCH_(ENABLE_MPS_FALLBACK|MPS_.+)"
    "|SYCL_.+|UR_L0_.+|IGC_.+|ZE_FLAT_DEVICE_HIERARCHY"
)
NOT_STEERING = re.compile(".+_(HOME|DIR|PATH|FILE|FILENAME)|.*(VERBOSE|DEBUG|LOG).*")
"""Where files lie, and what is printed."""
MIB = 2**20


@dataclass(frozen=True)
class Environment:
    """``comparable`` must be equal for two measurements to be compared; ``observed`` is recorded beside it.

    ``seen`` is the GPU that torch uses, ``dependencies`` maps the installed distributions that can move with a nightly
    to their versions.
    """

    device: str
    hip: bool
    seen: Seen
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
        seen=_seen(resolved),
        torch_version=torch.__version__,
        torch_commit=torch.version.git_version or "",
        comparable=_comparable(resolved),
        observed=_observed(),
        dependencies=dict(_installed()),
    )


def _resolve(device: str) -> str:
    available = [kind for kind in DEVICE_TYPES if _is_available(kind)]
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


def _seen(device: str) -> Seen:
    """The first GPU of torch's; what this version of torch does not tell is empty."""
    if device not in ("cuda", "xpu"):
        return Seen()
    backend: Any = getattr(torch, device)
    told = backend.get_device_properties(0)
    place = [getattr(told, f"pci_{part}_id", -1) for part in ("domain", "bus", "device")]
    return Seen(
        told.name,
        str(getattr(told, "uuid", "")),
        "" if -1 in place else "{:04x}:{:02x}:{:02x}.0".format(*place),
        told.total_memory // MIB,
        backend.device_count(),
    )


def _comparable(device: str) -> dict[str, str]:
    facts = {
        "torch_threads": str(torch.get_num_threads()),
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
        "sdpa_flash": str(torch.backends.cuda.flash_sdp_enabled()),
        "deterministic_algorithms": str(torch.are_deterministic_algorithms_enabled()),
    }
    return facts | {name: _told(name, value) for name, value in os.environ.items() if steers(name, device)}


def steers(name: str, device: str) -> bool:
    """Whether an environment variable makes steps on the device faster or slower, and results other."""
    known = VARIABLES.fullmatch(name) or (device != "cpu" and ACCELERATOR_VARIABLES.fullmatch(name))
    return bool(known) and not NOT_STEERING.fullmatch(name)


def _told(name: str, value: str) -> str:
    """A library counts by what it is, not by where it lies."""
    if name != "LD_PRELOAD":
        return value
    return " ".join(part.rpartition("/")[2] for part in re.split("[ :]+", value) if part)


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
