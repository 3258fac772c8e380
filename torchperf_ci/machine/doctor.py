"""Can this machine give trustworthy numbers, and what is to be done about it?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from torchperf_ci.machine.checks import cpu, gpu, system
from torchperf_ci.machine.checks.facts import Facts, gather
from torchperf_ci.machine.checks.steadiness import device_steadiness, steadiness
from torchperf_ci.machine.devices.cpu import Cpu

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torchperf_ci.machine.checks.finding import Finding
    from torchperf_ci.machine.devices.base import Device
    from torchperf_ci.machine.noise import Exercise


def examine(
    device: Device | None = None, root: Path = Path("/"), exercise: Exercise | None = None
) -> tuple[Finding, ...]:
    """Look at this machine and at ``device`` (default: its CPU); takes about a second and changes nothing.

    ``exercise`` is how it fared when torch gave it work, where there was a torch.
    """
    return diagnose(gather(device or Cpu(root), root, exercise))


def diagnose(facts: Facts) -> tuple[Finding, ...]:
    """Judge what was gathered: the measured steadiness first, then what may explain it."""
    return (
        steadiness(facts),
        *device_steadiness(facts),
        *gpu.gpu_findings(facts),
        *(check(facts) for check in (*cpu.CHECKS, *system.CHECKS)),
    )


def verdict(findings: Sequence[Finding]) -> str:
    """One plain sentence."""
    bad = [finding.check for finding in findings if finding.level == "bad"]
    warned = [finding.check for finding in findings if finding.level == "warn"]
    if bad:
        return f"Do not trust absolute numbers from this machine: {_listed(bad)} must be seen to first."
    if warned:
        return (
            f"Numbers from this machine are usable, and best in pairs: {_listed(warned)} may make them noisy."
        )
    return "This machine gives trustworthy numbers."


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
