"""Where it is measured: devices, the machine's fingerprint, its tuning, and how far to trust it."""

from __future__ import annotations
