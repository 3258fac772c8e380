"""``torchperf upload``: completes records and delivers them to an upload API, a store or a place for files."""

from __future__ import annotations
