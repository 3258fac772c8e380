"""The torch under test: describe it, pin its global switches, and recognize errors for what it does not support."""

from __future__ import annotations

import dis
import importlib.metadata
import os
import platform
import re
import sys
import traceback
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, Any, TypeVar

import torch

from torchperf_ci.bench.worker.protocol import TorchEnvironment
from torchperf_ci.machine.devices import DEVICE_TYPES
from torchperf_ci.machine.devices import device as device_of
from torchperf_ci.machine.devices.interface import Device, TorchGpu

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from types import TracebackType

    from torch.utils._python_dispatch import TorchDispatchMode


_T = TypeVar("_T")

OUT_OF_MEMORY = ("out of memory", "t allocate memory", "_status_alloc_failed", "invalid buffer size: ")
"""Parts of out-of-memory messages; the last are from cuBLAS and cuDNN, and from MPS if one tensor is too large."""

_NO_KERNEL = re.compile(r"""\"\w+\" not implemented for \\?'\w+""")
"""Message of torch's kernels for a dtype that they are not compiled for. Compilers quote it in their own messages."""
_NO_COMPILER = re.compile(
    r"\bInvalidCxxCompiler\b|\bNo working C\+\+ compiler\b|Cannot find a working triton|Failed to find C compiler"
)
"""Messages for a missing compiler. Triton raises the last one, which inductor may quote, at the first launch."""


class UnsupportedError(Exception):
    """A combination of workload, mode, dtype, device and backend that does not exist here."""


def told_by(error: BaseException) -> str:
    """Return an error's message, or Python's words for one whose class fails to make it."""
    return str(traceback.TracebackException(type(error), error, None))


def status_of(error: BaseException) -> str:
    """Classify an error that torch raised as ``oom``, ``unsupported`` or ``failed``."""
    text = f"{type(error).__name__}: {told_by(error)}"
    if isinstance(error, (torch.OutOfMemoryError, MemoryError)) or any(
        mark in text.lower() for mark in OUT_OF_MEMORY
    ):
        return "oom"
    return "unsupported" if isinstance(error, UnsupportedError) or _is_lacking(error, text) else "failed"


def _is_lacking(error: BaseException, text: str) -> bool:
    """Whether torch reports a missing kernel or a missing compiler.

    Such an error does not fail a run, so a workload's own errors must not be mistaken for it, whatever their type.
    """
    place = error.__traceback__
    while place is not None and place.tb_next is not None:
        place = place.tb_next
    module = str(place.tb_frame.f_globals.get("__name__", "")) if place else ""
    # An error of torch's compiler may quote one of a kernel or of the compiler beneath it.
    if type(error).__module__.startswith("torch.") or module.partition(".")[0] == "triton":
        return bool(_NO_KERNEL.search(text) or _NO_COMPILER.search(text))
    if place is None or _is_raise_statement(place):
        return False
    return isinstance(error, NotImplementedError) or (
        isinstance(error, RuntimeError) and bool(_NO_KERNEL.search(text))
    )


def _is_raise_statement(place: TracebackType) -> bool:
    """Whether an error was raised by a ``raise`` statement. Torch's kernels and dispatcher raise from C++ calls."""
    instruction = place.tb_frame.f_code.co_code[place.tb_lasti]
    return dis.opname[instruction] in ("RAISE_VARARGS", "RERAISE")


DEPENDENCIES = (
    *("triton", "pytorch-triton", "triton-rocm", "pytorch-triton-rocm", "triton-xpu", "pytorch-triton-xpu"),
    *("nvidia-cudnn-cu12", "nvidia-cudnn-cu13", "nvidia-cublas-cu12", "nvidia-cublas"),
    *("numpy", "torchvision", "torchaudio"),
)
"""Distributions whose version may change with PyTorch, in addition to the packages that workloads require."""
VARIABLES = re.compile(
    "OMP_(WAIT_POLICY|PROC_BIND|PLACES|DYNAMIC|SCHEDULE)|KMP_.+|GOMP_.+|MKL_(?!NUM_THREADS).+|LD_PRELOAD|MALLOC_.+"
    "|GLIBC_TUNABLES|OPENBLAS_(?!NUM_THREADS).+|FBGEMM_.+|TORCH_(MKLDNN_.+|LINEAR_.+)|ATEN_CPU_CAPABILITY"
    "|ONEDNN_.+|DNNL_.+|LRU_CACHE_CAPACITY|THP_MEM_ALLOC_ENABLE"
    "|TORCHINDUCTOR_(?!COMPILE_THREADS).+|TORCH_COMPILE_.+|TORCHDYNAMO_.+"
)
"""Variables that affect kernels, threads and allocators on any device, except those set for every worker."""
ACCELERATOR_VARIABLES = re.compile(
    "NVIDIA_TF32_OVERRIDE|CUDA_(LAUNCH_BLOCKING|MODULE_LOADING|DEVICE_MAX_CONNECTIONS)|CUBLAS(LT)?_.+|CUDNN_.+"
    "|TORCH_(ALLOW_TF32_CUBLAS_OVERRIDE|(CUDNN|BLAS|LINALG|ROCM)_.+)|PYTORCH_(TUNABLEOP_.+|.*ALLOC_CONF|MIOPEN_.+)"
    "|PYTORCH_NO_.+_MEMORY_CACHING|TRITON_.+|MIOPEN_.+|HSA_.+|ROCBLAS_.+|HIPBLASLT_.+"
    "|HIP_(LAUNCH_BLOCKING|FORCE_DEV_KERNARG)|GPU_MAX_HW_QUEUES|AMD_(DIRECT_DISPATCH|SERIALIZE_.+)"
    "|PYTORCH_(ENABLE_MPS_FALLBACK|MPS_.+)|SYCL_.+|UR_L0_.+|IGC_.+|ZE_FLAT_DEVICE_HIERARCHY"
)
NOT_STEERING = re.compile(".+_(HOME|DIR|PATH|FILE|FILENAME|URL|HOST|PORT)|.*(VERBOSE|DEBUG|LOG).*")
"""Variables that only set files, servers (with passwords in URLs) or logging, which does not affect speed."""
PROFILE_NAMES = ("TORCH_COMPILE_JOB_ID", "TORCH_COMPILE_STICKY_PGO_KEY")
"""Variables that switch dynamo's profile of shapes on. Their values name the profile, and may differ for each job."""
MIB = 2**20


def torch_environment(device: str, packages: Iterable[str] = ()) -> TorchEnvironment:
    """Resolve the device ``auto`` and describe this interpreter, with the versions of installed ``packages``.

    Raises :class:`UnsupportedError` if torch does not see the device.
    """
    resolved = _resolve(device)
    return TorchEnvironment(
        device=resolved,
        hip=torch.version.hip is not None,
        seen=_torch_gpu(resolved),
        torch_version=torch.__version__,
        torch_commit=torch.version.git_version or "",
        comparable=_comparable(resolved),
        observed=_observed(),
        dependencies=_installed_versions(dict.fromkeys([*DEPENDENCIES, *packages])),
    )


def _resolve(device: str) -> str:
    available = [kind for kind in DEVICE_TYPES if device_of(kind).is_available()]
    if device == "auto":
        return available[0]
    if device not in available:
        msg = f"torch {torch.__version__} sees no {device} device here, only {', '.join(available)}"
        raise UnsupportedError(msg)
    return device


def _torch_gpu(device: str) -> TorchGpu:
    """Describe torch's first GPU. Properties that this version of torch does not report are empty."""
    backend: Any = getattr(torch, device)
    if device == "mps":  # it shares the host's memory: what Metal recommends to use of it
        return TorchGpu(memory_mib=backend.recommended_max_memory() // MIB, count=1)
    if not hasattr(backend, "get_device_properties"):
        return TorchGpu()
    properties = backend.get_device_properties(0)
    place = [getattr(properties, f"pci_{part}_id", -1) for part in ("domain", "bus", "device")]
    return TorchGpu(
        properties.name,
        str(getattr(properties, "uuid", "")),
        "" if -1 in place else "{:04x}:{:02x}:{:02x}.0".format(*place),
        properties.total_memory // MIB,
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
    """Whether an environment variable can change the speed or the results of steps on the device."""
    known = VARIABLES.fullmatch(name) or (device != "cpu" and ACCELERATOR_VARIABLES.fullmatch(name))
    return bool(known) and not NOT_STEERING.fullmatch(name)


def _value_of(name: str, value: str) -> str:
    """Return a variable's value; for ``LD_PRELOAD`` the names of the libraries without their paths."""
    if name in PROFILE_NAMES:
        return "set"
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
    """Return the versions of those packages that are installed here; an interrupted pip leaves some without one."""
    found = {}
    for name in packages:
        with suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    return {name: version for name, version in found.items() if version}


@contextmanager
def pinned(dtype: str, device: Device) -> Iterator[dict[str, str]]:
    """Pin torch's global switches before the block, and restore those that the block has changed.

    Yields a mapping that lists the changes after the block: ``{"cudnn.benchmark": "False → True"}``.
    """
    set_precision(dtype, device)
    _set_defaults()
    moved: dict[str, str] = {}
    before = _values()
    yield moved
    after = _values()
    for name, (_, write) in _switches().items():
        if after[name] != before[name]:
            moved[name] = f"{before[name]} → {after[name]}"
            if write:
                write(before[name])
    set_precision(dtype, device)
    _set_defaults()


def _set_defaults() -> None:
    """Create tensors in fp32 on the CPU and record gradients, whatever a suite file or a build has set."""
    torch.set_default_dtype(torch.float32)
    torch.set_default_device(None)
    torch.set_grad_enabled(True)


def set_precision(dtype: str, device: Device) -> None:
    """Allow TF32 for the dtype ``tf32`` only; otherwise fp32 is exact. Raises :class:`UnsupportedError` without TF32.

    torch has two interfaces for this, and reading one raises an error if only the other was set, even in torch's own
    compiler. If they are set in this order, both can be read (tested with 2.9, 2.13 and 2.14).
    """
    tf32 = dtype == "tf32"
    if tf32 and not (device.torch_type == "cuda" and _has_tf32()):
        raise UnsupportedError(f"{device.torch_type} has no tf32")
    torch.backends.cudnn.benchmark = False
    torch.set_float32_matmul_precision("high" if tf32 else "highest")
    torch.backends.cudnn.allow_tf32 = tf32
    if hasattr(torch.backends, "fp32_precision"):  # from torch 2.9 on
        torch.backends.fp32_precision = "ieee"
        for backend in _fp32_backends().values():
            backend.fp32_precision = "tf32" if tf32 else "ieee"


def _has_tf32() -> bool:
    """Whether the GPU has TF32. Only torch knows which AMD GPUs do, from version 2.7 on; before that assume none."""
    known = getattr(torch.cuda, "is_tf32_supported", None)
    return bool(known()) if known else torch.version.hip is None


def _fp32_backends() -> Mapping[str, Any]:
    cudnn: Any = torch.backends.cudnn  # torch's annotations lack its attributes conv and rnn
    return {"cuda.matmul": torch.backends.cuda.matmul, "cudnn.conv": cudnn.conv, "cudnn.rnn": cudnn.rnn}


def _switches() -> dict[str, tuple[Callable[[], Any], Callable[[Any], object] | None]]:
    """Return a reader and a writer of each switch; those that are pinned have no writer.

    The fp32 switches are read by both interfaces.
    """
    matmul, cudnn = torch.backends.cuda.matmul, torch.backends.cudnn
    fp32 = _fp32_backends() if hasattr(torch.backends, "fp32_precision") else {}
    return {
        "cudnn.benchmark": _attribute(cudnn, "benchmark"),
        "cudnn.deterministic": _attribute(cudnn, "deterministic"),
        "fp16 reduced-precision reduction": _attribute(matmul, "allow_fp16_reduced_precision_reduction"),
        "bf16 reduced-precision reduction": _attribute(matmul, "allow_bf16_reduced_precision_reduction"),
        "threads": (torch.get_num_threads, torch.set_num_threads),
        "deterministic algorithms": (
            torch.are_deterministic_algorithms_enabled,
            torch.use_deterministic_algorithms,
        ),
        "float32_matmul_precision": (torch.get_float32_matmul_precision, None),
        "cudnn.allow_tf32": (lambda: cudnn.allow_tf32, None),
        "default dtype": (torch.get_default_dtype, None),
        "default device": (_default_device, None),
        "gradients": (torch.is_grad_enabled, None),
        **{
            f"{name}.fp32_precision": (_attribute(backend, "fp32_precision")[0], None)
            for name, backend in fp32.items()
        },
    }


def _attribute(owner: Any, name: str) -> tuple[Callable[[], Any], Callable[[Any], object]]:
    return lambda: getattr(owner, name), lambda value: setattr(owner, name, value)


def _values() -> dict[str, object]:
    return {name: _value(read) for name, (read, _) in _switches().items()}


def _value(read: Callable[[], Any]) -> object:
    with suppress(RuntimeError):
        return read()
    return "contradictory"


def _default_device() -> torch.device:
    try:
        return torch.get_default_device()
    except AttributeError:  # of torch 2.6 after a reset
        return torch.device("cpu")


COMPILER = "torch._dynamo"


@contextmanager
def without_compiler(mode: type[TorchDispatchMode]) -> Iterator[None]:
    """Remove the wrapper that keeps the compiler from compiling ``mode`` itself, for the duration of the block.

    On its first operator the wrapper imports the compiler in order to disable it, which takes half of a worker's
    start-up time. If the compiler is already imported the wrapper stays; older versions of torch have no wrapper.
    """
    wrapped = mode.__torch_dispatch__
    if COMPILER not in sys.modules:
        mode.__torch_dispatch__ = getattr(wrapped, "__wrapped__", wrapped)  # type: ignore[method-assign]
    try:
        yield
    finally:
        mode.__torch_dispatch__ = wrapped  # type: ignore[method-assign]


@contextmanager
def running_profiler(profiler: AbstractContextManager[_T]) -> Iterator[_T]:
    """Run torch's profiler for the duration of the block, without importing the compiler.

    When it starts, the profiler asks whether torch has inductor, and torch answers by importing it, which takes longer
    than a worker's start. If inductor is already imported, nothing changes.
    """
    imported_when_asked_for: set[str] = getattr(torch, "_lazy_modules", set())
    hidden = imported_when_asked_for & {"_inductor"}
    with ExitStack() as stack:
        imported_when_asked_for -= hidden
        try:
            entered = stack.enter_context(profiler)
        finally:
            imported_when_asked_for |= hidden
        yield entered
