"""Shadows the toolkit's dependency of the same name if PYTHONPATH leaks into the toolkit."""

from __future__ import annotations

raise ImportError
