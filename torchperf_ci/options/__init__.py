"""The options of every command, each declared once."""

from __future__ import annotations

from torchperf_ci.options.judging_commands import (
    BaselineUpdateOptions,
    CheckOptions,
    HistoryOptions,
    PlanOptions,
    ReportOptions,
    WatchOptions,
)
from torchperf_ci.options.keeping_commands import IngestOptions, QueryOptions, ReceiveOptions, UploadOptions
from torchperf_ci.options.measuring_commands import (
    BisectOptions,
    CompareOptions,
    DoctorOptions,
    ListOptions,
    RunOptions,
)
from torchperf_ci.options.option import Option, is_given, options_of, read

__all__ = [
    "BaselineUpdateOptions",
    "BisectOptions",
    "CheckOptions",
    "CompareOptions",
    "DoctorOptions",
    "HistoryOptions",
    "IngestOptions",
    "ListOptions",
    "Option",
    "PlanOptions",
    "QueryOptions",
    "ReceiveOptions",
    "ReportOptions",
    "RunOptions",
    "UploadOptions",
    "WatchOptions",
    "is_given",
    "options_of",
    "read",
]
