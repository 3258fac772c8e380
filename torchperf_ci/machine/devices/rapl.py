"""Energy of the processor packages, through Linux's power capping framework (Intel and AMD RAPL)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchperf_ci.machine.devices.system_files import number, text

if TYPE_CHECKING:
    from pathlib import Path

MICROJOULE = 1e-6
PACKAGES = "sys/class/powercap/intel-rapl:?"
"""One colon is a package, or ``psys``, which holds the packages and more; two are a part of one."""


class Rapl:
    """Counters that wrap around (after minutes under load), unwrapped from reading to reading."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._last: dict[Path, int] = {}
        self._used = 0

    def joules(self) -> float | None:
        """Energy since some fixed moment; None where no counter may be read (often only root may)."""
        readings = {
            package: energy
            for package in sorted(self._root.glob(PACKAGES))
            if text(package / "name").startswith("package")
            and (energy := number(package / "energy_uj")) is not None
        }
        if not readings:
            return None
        for package, energy in readings.items():
            used = energy - self._last.get(package, energy)
            self._used += used if used >= 0 else used + (number(package / "max_energy_range_uj") or 0)
        self._last = readings
        return self._used * MICROJOULE
