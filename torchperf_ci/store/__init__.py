"""Results in ClickHouse, embedded or a server: one client, one dialect, one schema."""

from __future__ import annotations
