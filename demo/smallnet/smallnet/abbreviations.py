"""What is short for what."""

from __future__ import annotations

ABBREVIATIONS = {"approx.": "approximately"}
