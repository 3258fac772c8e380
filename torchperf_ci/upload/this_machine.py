"""The runner of records that name none: this machine, as far as it can be told without torch."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torchperf_ci.machine.devices.base import Device


def runner(given: Mapping[str, Any]) -> dict[str, object]:
    """A ``runners`` element; ``device_name`` and ``device_type`` in ``given`` beat what is found.

    It holds what stays the same from one call to the next, and no fingerprint: nobody knows how the machine was set
    when the records were made.
    """
    from torchperf_ci.machine.fingerprint import Fingerprint
    from torchperf_ci.machine.runner import runner_entry

    entry = runner_entry(_device(), Fingerprint({}, {}))
    told = {"name": given["device_name"], "type": given["device_type"]}
    known = {key: value for key, value in told.items() if value}
    return {**entry, **known, "extra_info": {"hostname": socket.gethostname()}}


def _device() -> Device:
    """The first kind of GPU that its vendor's tools find, in the order of the PyTorch benchmark infrastructure."""
    from torchperf_ci.machine.devices import device

    kinds = (device("cuda"), device("cuda", hip=True), device("xpu"))
    return next((kind for kind in kinds if kind.identity().gpu_count), device("cpu"))
