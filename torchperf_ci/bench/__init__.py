"""HOW it is measured: the parent drives workers that run in the environment under test."""

from __future__ import annotations
