"""Intel's Gaudi, on which torchperf does not measure, and other harnesses do."""

from __future__ import annotations

import re
import subprocess

from torchperf_ci.machine.devices.base import Identity

HL_SMI_SECONDS = 30.0
_PRODUCT = re.compile(r"^\s*Product Name\s*:[ \t]*([^:\n]*?)\s*$", re.MULTILINE)


def identity() -> Identity:
    """Named as the PyTorch benchmark infrastructure does, after ``hl-smi``; without a device where that finds none."""
    products = _PRODUCT.findall(_hl_smi())
    # The infrastructure has this word for every generation, and queries go by its names.
    return Identity("hpu", f"Intel Gaudi3 {products[0]}" if products else "", gpu_count=len(products))


def _hl_smi() -> str:
    try:
        return subprocess.run(
            ["hl-smi", "-q"],  # noqa: S607  # it has no fixed place; PATH knows it
            capture_output=True,
            text=True,
            errors="replace",
            timeout=HL_SMI_SECONDS,
            check=True,
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return ""
