"""Benchmark results in ClickHouse, embedded or on a server, with one client, one SQL dialect and one schema."""

from __future__ import annotations
