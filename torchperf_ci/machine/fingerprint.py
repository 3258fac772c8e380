"""The machine's fingerprint: facts that must match for a comparison, facts that are only recorded, and ``runners``."""

from __future__ import annotations

import hashlib
import json
import math
import platform
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from torchperf_ci.machine.host import Host, compilers, read_host

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torchperf_ci.machine.devices.interface import Device, DeviceIdentity
    from torchperf_ci.machine.tuning import TuningReport

MIB = 2**20
GIB = 2**30
DIGEST_LENGTH = 12
UNKNOWN = "unknown"


@dataclass(frozen=True)
class Fingerprint:
    """A machine and its settings as flat facts.

    ``comparable`` must be equal for two records to be compared; ``observed`` may differ from run to run. They share
    no names.
    """

    comparable: Mapping[str, str]
    observed: Mapping[str, str]

    @property
    def digest(self) -> str:
        """12 hexadecimal digits that identify ``comparable``."""
        canonical = json.dumps(dict(self.comparable), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(canonical.encode()).hexdigest()[:DIGEST_LENGTH]

    def facts(self) -> dict[str, str]:
        """All facts, as stored in a record; ``fingerprint_of`` names those in the digest."""
        return {
            **self.observed,
            **self.comparable,
            "fingerprint": self.digest,
            "fingerprint_of": ",".join(sorted(self.comparable)),
        }


def take_fingerprint(
    device: Device,
    torch_facts: Mapping[str, str],
    comparable_torch: Mapping[str, str],
    tuning: TuningReport | None = None,
    root: Path = Path("/"),
    *,
    cpus: tuple[int, ...] = (),
) -> Fingerprint:
    """Fingerprint this machine in its present state. If it is tuned, call this inside the :func:`tuning.tuned` block.

    The facts about torch come from the environment under test: ``torch_facts`` are recorded, and ``comparable_torch``
    (threads, variables that affect kernels) must match for a comparison. Workers are pinned to ``cpus``.
    """
    host, identity = read_host(root), device.identity()
    pinned = {"cpus": "pinned" if cpus else "unpinned"}
    comparable = {**_comparable(host, identity, tuning), **pinned, **comparable_torch}
    observed = {
        **_observed(host),
        "driver_version": identity.driver,
        "pinned_to": ",".join(map(str, cpus)),
        **identity.facts,
        **device.clocks(),
        **_refused(tuning),
        **torch_facts,
    }
    observed = {name: value for name, value in observed.items() if value}
    throttling = device.throttling()
    if reasons := (*throttling.voiding, *throttling.warning):
        observed["throttling"] = ", ".join(reasons)
    return Fingerprint(comparable, {name: v for name, v in observed.items() if name not in comparable})


def _comparable(host: Host, identity: DeviceIdentity, tuning: TuningReport | None) -> dict[str, str]:
    applied = tuning.applied if tuning else {}
    return {
        "device": identity.name,
        "device_type": identity.type,
        "driver": identity.driver_branch or "none",
        **identity.settings,
        "gpu_clocks": applied.get("gpu_clocks", "free") if identity.gpu_count else "none",
        "cpu": host.processor.model,
        "cores": str(host.processor.cores),
        "cpu_quota": "none" if host.cpu_quota is None else f"{host.cpu_quota:g}",
        "smt": "on" if host.processor.threads > host.processor.cores else "off",
        "governor": ",".join(host.governors) or UNKNOWN,
        "turbo": UNKNOWN if host.turbo is None else _switch(host.turbo),
        "huge_pages": host.huge_pages or UNKNOWN,
        "memory": f"{_memory_class(host.memory_total)} GiB",
        "system": f"{host.system} {'.'.join(host.kernel.split('.')[:2])}",
        "tuning": "; ".join(f"{name}={value}" for name, value in sorted(applied.items())) or "none",
    }


def _observed(host: Host) -> dict[str, str]:
    return {
        "hostname": socket.gethostname(),
        "boot_id": host.boot_id,
        "kernel": host.kernel,
        "hypervisor": host.hypervisor or "none",
        "microcode": host.processor.microcode,
        "isolated_cpus": ",".join(map(str, host.isolated)),
        "load": f"{host.load:.2f}",
        "cpu_pressure": "" if host.cpu_pressure is None else f"{host.cpu_pressure:.3f}",
        "toolkit_python": platform.python_version(),
        **{f"compiler_{kind}": version for kind, version in compilers().items()},
    }


def _refused(tuning: TuningReport | None) -> dict[str, str]:
    return {f"tuning_refused_{name}": why for name, why in (tuning.refused if tuning else {}).items()}


def _memory_class(total: int) -> int:
    """The nearest power of two, in GiB: kernels reserve a varying amount for themselves."""
    return 1 << round(math.log2(max(total / GIB, 1)))


def _switch(state: bool) -> str:
    return "on" if state else "off"


def runner_entry(
    identity: DeviceIdentity, fingerprint: Fingerprint, root: Path = Path("/")
) -> dict[str, object]:
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
