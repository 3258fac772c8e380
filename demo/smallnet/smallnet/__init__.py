"""A small classifier of documents."""

from __future__ import annotations

__all__ = ["__version__"]
__version__ = "1.4.0"
