"""The options of every command, each declared once."""

from __future__ import annotations

from torchperf_ci.options.judging import (
    BaselineUpdateOptions,
    CheckOptions,
    HistoryOptions,
    PlanOptions,
    ReportOptions,
    WatchOptions,
)
from torchperf_ci.options.keeping import IngestOptions, QueryOptions, ReceiveOptions, UploadOptions
from torchperf_ci.options.measuring import (
    BisectOptions,
    CompareOptions,
    DoctorOptions,
    ListOptions,
    RunOptions,
)
from torchperf_ci.options.option import Option, options_of, read

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
    "options_of",
    "read",
]
