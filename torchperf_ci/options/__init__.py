"""The options of every command, each declared once; :mod:`torchperf_ci.cli` says which command has which."""

from __future__ import annotations

from torchperf_ci.options.option import Option, is_given, options_of, read, sections_of

__all__ = ["Option", "is_given", "options_of", "read", "sections_of"]
