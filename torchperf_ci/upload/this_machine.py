"""The runner of records that name none: this machine, as the benchmark infrastructure tells it, without torch."""

from __future__ import annotations

import socket
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torchperf_ci.machine.devices.base import Identity
    from torchperf_ci.options import UploadOptions

_NO_TYPE = "arm64-cpu"
"""For which the infrastructure leaves the type empty, so that queries go by what else is known of the hardware."""


def runner(given: UploadOptions) -> dict[str, object]:
    """A ``runners`` element; ``device_name`` and ``device_type`` in ``given`` beat what is found.

    It holds what stays the same from one call to the next, and no fingerprint: nobody knows how the machine was set
    when the records were made.
    """
    from torchperf_ci.machine.fingerprint import Fingerprint
    from torchperf_ci.machine.runner import runner_entry

    entry = runner_entry(_identity(), Fingerprint({}, {}))
    told = {"name": given.device_name, "type": given.device_type}
    known = {key: value for key, value in told.items() if value}
    return {**entry, **known, "extra_info": {"hostname": socket.gethostname()}}


def _identity() -> Identity:
    """The first kind of GPU that its vendor's tools find, in the infrastructure's order; else the CPU."""
    from torchperf_ci.machine.devices import device
    from torchperf_ci.upload import gaudi

    kinds = (
        device("cuda").identity,
        device("cuda", hip=True).identity,
        gaudi.identity,
        device("xpu").identity,
    )
    found = (kind() for kind in kinds)
    first = next((identity for identity in found if identity.gpu_count), device("cpu").identity())
    return replace(first, type="") if first.name == _NO_TYPE else first
