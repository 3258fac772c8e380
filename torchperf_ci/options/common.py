"""Options of several commands."""

from __future__ import annotations

from torchperf_ci.options.option import Option
from torchperf_ci.options.values import truth

CONFIG = Option("--config", "The project's file", metavar="FILE", default="torchperf.yml, if it is there")
JSON = Option("--json", "Print JSON instead of a table", truth)
