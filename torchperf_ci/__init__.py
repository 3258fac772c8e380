"""Continuous performance testing of PyTorch."""

from __future__ import annotations

__version__ = "1.0.0"
