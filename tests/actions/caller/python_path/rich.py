"""Stands before the toolkit's own package of that name wherever PYTHONPATH counts."""

from __future__ import annotations

raise ImportError
