"""Is it kept? Records on their way to where they are kept, and the other end of that way."""

from __future__ import annotations
