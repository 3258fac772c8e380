"""The statements that are longer than a line."""

from __future__ import annotations

from functools import cache
from pathlib import Path


@cache
def statement(name: str) -> str:
    """The text of ``NAME.sql``."""
    return Path(__file__).with_name(f"{name}.sql").read_text(encoding="utf-8")
