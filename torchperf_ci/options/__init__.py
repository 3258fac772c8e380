"""The options of every command, each declared once."""

from __future__ import annotations

from torchperf_ci.options.bisecting import BISECT_OPTIONS
from torchperf_ci.options.comparing import COMPARE_OPTIONS
from torchperf_ci.options.judging import BASELINE_UPDATE_OPTIONS, CHECK_OPTIONS, HISTORY_OPTIONS
from torchperf_ci.options.keeping import INGEST_OPTIONS, QUERY_OPTIONS, RECEIVE_OPTIONS, UPLOAD_OPTIONS
from torchperf_ci.options.measuring import DOCTOR_OPTIONS, LIST_OPTIONS, RUN_OPTIONS
from torchperf_ci.options.option import Option, read_all
from torchperf_ci.options.planning import PLAN_OPTIONS
from torchperf_ci.options.reporting import REPORT_OPTIONS
from torchperf_ci.options.watching import WATCH_OPTIONS

__all__ = [
    "BASELINE_UPDATE_OPTIONS",
    "BISECT_OPTIONS",
    "CHECK_OPTIONS",
    "COMPARE_OPTIONS",
    "DOCTOR_OPTIONS",
    "HISTORY_OPTIONS",
    "INGEST_OPTIONS",
    "LIST_OPTIONS",
    "PLAN_OPTIONS",
    "QUERY_OPTIONS",
    "RECEIVE_OPTIONS",
    "REPORT_OPTIONS",
    "RUN_OPTIONS",
    "UPLOAD_OPTIONS",
    "WATCH_OPTIONS",
    "Option",
    "read_all",
]
