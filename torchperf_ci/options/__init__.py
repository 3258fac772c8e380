"""The options of all commands, each declared once; :mod:`torchperf_ci.cli` assigns them to commands."""

from __future__ import annotations

from torchperf_ci.options.option import HelpFormatter, Option, is_given, options_of, read, sections_of

__all__ = ["HelpFormatter", "Option", "is_given", "options_of", "read", "sections_of"]
