"""The options of every command, each declared once."""

from __future__ import annotations

from torchperf_ci.options.bisecting import BisectOptions
from torchperf_ci.options.comparing import CompareOptions
from torchperf_ci.options.judging import BaselineUpdateOptions, CheckOptions, HistoryOptions
from torchperf_ci.options.keeping import IngestOptions, QueryOptions, ReceiveOptions, UploadOptions
from torchperf_ci.options.measuring import DoctorOptions, ListOptions, RunOptions
from torchperf_ci.options.option import Option, options_of, read
from torchperf_ci.options.planning import PlanOptions
from torchperf_ci.options.reporting import ReportOptions
from torchperf_ci.options.watching import WatchOptions

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
