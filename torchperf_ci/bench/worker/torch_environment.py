"""The torch under test: its facts, the switches that are pinned, and what it says where it lacks something."""

from __future__ import annotations

import dis
import importlib.metadata
import os
import platform
import re
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import torch

from torchperf_ci.bench.worker.protocol import TorchEnvironment
from torchperf_ci.machine.devices import DEVICE_TYPES
from torchperf_ci.machine.devices.interface import TorchGpu

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from torchperf_ci.machine.devices.interface import Device


OUT_OF_MEMORY = ("out of memory", "can't allocate memory", "cannot allocate memory", "_status_alloc_failed")
"""The last is what cuBLAS and cuDNN say."""

_NO_KERNEL = re.compile(r"""\"\w+\" not implemented for \\?'\w+""")
"""What torch's kernels say of a dtype that they are not compiled for; a compiler quotes it."""
_NO_COMPILER = re.compile(
    r"\bInvalidCxxCompiler\b|\bNo working C\+\+ compiler\b|Cannot find a working triton|Failed to find C compiler"
)
"""The last is Triton's own, which inductor quotes, or which comes by itself at the first launch."""


class UnsupportedError(Exception):
    """A combination of workload, mode, dtype, device and backend that does not exist here."""


def status_of(error: BaseException) -> str:
    """``oom``, ``unsupported`` or ``failed``, from what torch raises for each."""
    text = f"{type(error).__name__}: {error}".lower()
    if isinstance(error, (torch.OutOfMemoryError, MemoryError)) or any(
        mark in text for mark in OUT_OF_MEMORY
    ):
        return "oom"
    return "unsupported" if isinstance(error, UnsupportedError) or _is_lacking(error) else "failed"


def _is_lacking(error: BaseException) -> bool:
    """Whether torch says that it has no such kernel, or no compiler for one.

    A run does not fail for that, so a workload's own errors must not pass for it, whatever they are called.
    """
    text = f"{type(error).__name__}: {error}"
    # Its compiler's, which may quote a kernel's, or the compiler's below that.
    if type(error).__module__.startswith("torch.") or _is_raised_in(error, "triton"):
        return bool(_NO_KERNEL.search(text) or _NO_COMPILER.search(text))
    if _is_raised_in_python(error):
        return False
    return isinstance(error, NotImplementedError) or (
        isinstance(error, RuntimeError) and bool(_NO_KERNEL.search(text))
    )


def _is_raised_in(error: BaseException, package: str) -> bool:
    place = error.__traceback__
    while place is not None and place.tb_next is not None:
        place = place.tb_next
    name = place.tb_frame.f_globals.get("__name__", "") if place else ""
    return str(name).partition(".")[0] == package


def _is_raised_in_python(error: BaseException) -> bool:
    """Whether it comes from a ``raise``, and not out of a call: torch's kernels and its dispatcher are no Python."""
    place = error.__traceback__
    if place is None:
        return True
    while place.tb_next is not None:
        place = place.tb_next
    instruction = place.tb_frame.f_code.co_code[place.tb_lasti]
    return dis.opname[instruction] in ("RAISE_VARARGS", "RERAISE")


DEPENDENCIES = (
    *("triton", "pytorch-triton", "triton-rocm", "pytorch-triton-rocm", "triton-xpu", "pytorch-triton-xpu"),
    *("nvidia-cudnn-cu12", "nvidia-cudnn-cu13", "nvidia-cublas-cu12", "nvidia-cublas"),
    *("numpy", "torchvision", "torchaudio"),
)
"""What may move with a PyTorch, beside the packages that workloads require."""
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


def torch_environment(device: str, packages: Iterable[str] = ()) -> TorchEnvironment:
    """Resolve ``auto`` and describe this interpreter, with the versions of ``packages`` where it has them.

    Raises :class:`UnsupportedError` for an absent device.
    """
    resolved = _resolve(device)
    return TorchEnvironment(
        device=resolved,
        hip=torch.version.hip is not None,
        seen=_seen(resolved),
        torch_version=torch.__version__,
        torch_commit=torch.version.git_version or "",
        comparable=_comparable(resolved),
        observed=_observed(),
        dependencies=_installed_versions(dict.fromkeys([*DEPENDENCIES, *packages])),
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


def _seen(device: str) -> TorchGpu:
    """The first GPU of torch's; what this version of torch does not tell is empty."""
    backend: Any = getattr(torch, device)
    if not hasattr(backend, "get_device_properties"):
        return TorchGpu()
    told = backend.get_device_properties(0)
    place = [getattr(told, f"pci_{part}_id", -1) for part in ("domain", "bus", "device")]
    return TorchGpu(
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
    return facts | {
        name: _value_of(name, value) for name, value in os.environ.items() if steers(name, device)
    }


def steers(name: str, device: str) -> bool:
    """Whether an environment variable makes steps on the device faster or slower, and results other."""
    known = VARIABLES.fullmatch(name) or (device != "cpu" and ACCELERATOR_VARIABLES.fullmatch(name))
    return bool(known) and not NOT_STEERING.fullmatch(name)


def _value_of(name: str, value: str) -> str:
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


def _installed_versions(packages: Iterable[str]) -> dict[str, str]:
    """The versions of those that pip knows here."""
    found = {}
    for name in packages:
        with suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    return found


@contextmanager
def pinned(dtype: str, device: Device) -> Iterator[dict[str, str]]:
    """Pin the switches for what the block builds, and after it again, which may have moved them.

    Yields what it has moved, which is there after the block: ``{"cudnn.benchmark": "False → True"}``.
    """
    set_precision(dtype, device)
    moved: dict[str, str] = {}
    before, unmoved = _state(), {name: read() for name, (read, _) in _switches().items()}
    yield moved
    after = _state()
    moved |= {name: f"{was} → {after[name]}" for name, was in before.items() if after[name] != was}
    for name, (_, write) in _switches().items():
        if name in moved:
            write(unmoved[name])
    set_precision(dtype, device)


def set_precision(dtype: str, device: Device) -> None:
    """fp32 is exact fp32; ``tf32`` is the only dtype that opens tf32. Raises :class:`UnsupportedError` without it.

    torch has two interfaces for this, and each refuses to answer where only the other one was used, in torch's own
    compiler, too. Set in this order, both answer (tried with 2.9, 2.13 and 2.14).
    """
    tf32 = dtype == "tf32"
    if tf32 and not (device.torch_type == "cuda" and _has_tf32()):
        msg = f"{device.torch_type} has no tf32"
        raise UnsupportedError(msg)
    torch.backends.cudnn.benchmark = False
    torch.set_float32_matmul_precision("high" if tf32 else "highest")
    torch.backends.cudnn.allow_tf32 = tf32
    if hasattr(torch.backends, "fp32_precision"):  # from torch 2.9 on
        torch.backends.fp32_precision = "ieee"
        for backend in _fp32_backends().values():
            backend.fp32_precision = "tf32" if tf32 else "ieee"


def _has_tf32() -> bool:
    """Which AMD GPUs have it only torch knows, from 2.7 on."""
    known = getattr(torch.cuda, "is_tf32_supported", None)
    return bool(known()) if known else torch.version.hip is None


def _fp32_backends() -> Mapping[str, Any]:
    cudnn: Any = torch.backends.cudnn  # its conv and rnn are attributes that torch's annotations leave out
    return {"cuda.matmul": torch.backends.cuda.matmul, "cudnn.conv": cudnn.conv, "cudnn.rnn": cudnn.rnn}


def _switches() -> dict[str, tuple[Callable[[], Any], Callable[[Any], object]]]:
    """By name, how to read and to write those that have one interface; what is left of torch's default stays so."""
    matmul, cudnn = torch.backends.cuda.matmul, torch.backends.cudnn
    attributes: dict[str, tuple[Any, str]] = {
        "cudnn.benchmark": (cudnn, "benchmark"),
        "cudnn.deterministic": (cudnn, "deterministic"),
        "fp16 reduced-precision reduction": (matmul, "allow_fp16_reduced_precision_reduction"),
        "bf16 reduced-precision reduction": (matmul, "allow_bf16_reduced_precision_reduction"),
    }
    return {
        **{name: _of_attribute(*place) for name, place in attributes.items()},
        "threads": (torch.get_num_threads, torch.set_num_threads),
        "deterministic algorithms": (
            torch.are_deterministic_algorithms_enabled,
            torch.use_deterministic_algorithms,
        ),
    }


def _of_attribute(owner: Any, name: str) -> tuple[Callable[[], Any], Callable[[Any], object]]:
    return lambda: getattr(owner, name), lambda value: setattr(owner, name, value)


def _state() -> dict[str, str]:
    """Every switch as a word, those for fp32 by both interfaces."""
    readings: dict[str, Callable[[], Any]] = {
        **{name: read for name, (read, _) in _switches().items()},
        "float32_matmul_precision": torch.get_float32_matmul_precision,
        "cudnn.allow_tf32": lambda: torch.backends.cudnn.allow_tf32,
    }
    if hasattr(torch.backends, "fp32_precision"):
        for name, backend in _fp32_backends().items():
            readings[f"{name}.fp32_precision"] = _of_attribute(backend, "fp32_precision")[0]
    return {name: _reading(read) for name, read in readings.items()}


def _reading(read: Callable[[], Any]) -> str:
    try:
        return str(read())
    except RuntimeError:
        return "contradictory"
