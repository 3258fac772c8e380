"""The switches that trade precision for speed, and determinism for it: pinned, and pinned again."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch

from torchperf_ci.bench.worker.errors import UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from torchperf_ci.machine.devices.base import Device


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
    return {name: _word(read) for name, read in readings.items()}


def _word(read: Callable[[], Any]) -> str:
    try:
        return str(read())
    except RuntimeError:
        return "contradictory"
