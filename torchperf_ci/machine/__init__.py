"""The machine that measures: its devices, fingerprint, tuning, and checks of how far its numbers can be trusted."""

from __future__ import annotations
