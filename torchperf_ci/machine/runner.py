"""The ``runners`` element of a v3 record."""

from __future__ import annotations

import platform
from pathlib import Path
from typing import TYPE_CHECKING

from torchperf_ci.machine.fingerprint import GIB
from torchperf_ci.machine.host import read_host

if TYPE_CHECKING:
    from torchperf_ci.machine.devices.base import Identity
    from torchperf_ci.machine.fingerprint import Fingerprint

MIB = 2**20


def runner_entry(identity: Identity, fingerprint: Fingerprint, root: Path = Path("/")) -> dict[str, object]:
    """Describe this machine and its device with the fields and types of the table ``oss_ci_benchmark_v3``.

    Counts and ``…_in_gb`` are unsigned integers, whole GiB rounded down; ``avail_…`` means the total, as the
    PyTorch benchmark infrastructure uses it, over all visible GPUs. ``extra_info`` holds the fingerprint.
    """
    host = read_host(root)
    gpu_bytes = identity.gpu_memory_mib * MIB
    return {
        "name": identity.name,
        "type": identity.type,
        "cpu_info": f"{platform.machine()} {host.processor.model}",
        "cpu_count": host.processor.cores,
        "mem_info": f"{host.memory_total // MIB} MiB",
        "avail_mem_in_gb": host.memory_total // GIB,
        "gpu_info": identity.type if identity.gpu_count else "",
        "gpu_count": identity.gpu_count,
        "gpu_mem_info": f"{identity.gpu_memory_mib} MiB" if identity.gpu_memory_mib else "",
        "avail_gpu_mem_in_gb": identity.gpu_count * gpu_bytes // GIB,
        "extra_info": fingerprint.facts(),
    }
