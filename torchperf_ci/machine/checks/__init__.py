"""The doctor's checks: pure functions from what was found on the machine to findings."""

from __future__ import annotations
