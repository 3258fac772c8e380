"""Does a plain function compute in the dtype and on the device that its case names?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from torchperf_ci.bench.worker.errors import UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Callable

DTYPES = {"fp32": torch.float32, "tf32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
"""``amp`` chooses by the operator."""


class _Results(TorchDispatchMode):
    """Devices and floating dtypes of what operators return."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.devices: set[str] = set()
        self.dtypes: set[torch.dtype] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        results = func(*args, **(kwargs or {}))
        for tensor in pytree.tree_leaves(results):
            if isinstance(tensor, torch.Tensor):
                self.devices.add(tensor.device.type)
                if tensor.is_floating_point():
                    self.dtypes.add(tensor.dtype)
        return results


def check_dtype(step: Callable[[], object], dtype: str, device: str) -> None:
    """Run ``step`` once; raise :class:`UnsupportedError` where no operator had this device, or this dtype.

    A module is moved and cast; of a function only the inputs are, and what it holds besides stays what it was.
    A function that works in another dtype in places, as for a sum, is none; nor is one without floating numbers, or
    one that cannot be watched.
    """
    seen = _Results()
    try:
        with seen:
            step()
    except Exception:  # noqa: BLE001  # it ran alone, so it is the looking that it does not stand
        return
    if seen.devices and device not in seen.devices:
        msg = f"all operators of this function ran on {_listed(seen.devices)}, none on {device}"
        raise UnsupportedError(msg)
    wanted = DTYPES.get(dtype)
    if wanted and seen.dtypes and wanted not in seen.dtypes:
        found = _listed({str(one).removeprefix("torch.") for one in seen.dtypes})
        msg = f"all operators of this function ran in {found}, none in {dtype}"
        raise UnsupportedError(msg)


def _listed(names: set[str]) -> str:
    return ", ".join(sorted(names))
