"""The host's switches that make timings steadier, as changes that can be taken back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchperf_ci.machine.devices.base import Change, Refusal
from torchperf_ci.machine.devices.system_files import CPUS, cpu_files, number, text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

DEEP_MICROSECONDS = 10
"""Waking from states with a longer exit latency is felt by kernels of that length."""


def host_changes(root: Path) -> Iterator[Change | Refusal]:
    """What can be done to the host, in this order.

    Each is found when its turn comes: once the siblings are off, the others concern the CPUs that are left.
    """
    yield _smt(root)
    yield _governor(root)
    yield _turbo(root)
    yield _idle_states(root)


def _smt(root: Path) -> Change | Refusal:
    control = root / CPUS / "smt/control"
    state = text(control)
    if state not in ("on", "off", "forceoff"):
        return Refusal("smt", f"the kernel says {state!r}" if state else "no switch for it here")
    return _written("smt", "off", "off", [control] if state == "on" else [])


def _governor(root: Path) -> Change | Refusal:
    files = cpu_files(root, "cpufreq/scaling_governor")
    if not files:
        return Refusal("governor", "no frequency scaling here, as in most virtual machines")
    return _written("governor", "performance", "performance", files)


def _turbo(root: Path) -> Change | Refusal:
    """A boosted clock depends on temperature and on what the neighbouring cores do."""
    for name, off in (("intel_pstate/no_turbo", "1"), ("cpufreq/boost", "0")):
        if (root / CPUS / name).exists():
            return _written("turbo", "off", off, [root / CPUS / name])
    return Refusal("turbo", "no switch for it here, as in most virtual machines")


def _idle_states(root: Path) -> Change | Refusal:
    states = cpu_files(root, "cpuidle/state*")
    deep = [state for state in states if (number(state / "latency") or 0) > DEEP_MICROSECONDS]
    if not deep:
        return Refusal("deep_idle_states", "there are none here")
    return _written("deep_idle_states", "off", "1", [state / "disable" for state in deep])


def _written(name: str, value: str, content: str, files: Sequence[Path]) -> Change:
    """Write ``content`` to each of the files that hold something else."""
    changed = [path for path in files if text(path) != content]

    def apply() -> None:
        for path in changed:
            path.write_text(content)

    return Change(name, value, [{"kind": "file", "path": str(path)} for path in changed], apply)
