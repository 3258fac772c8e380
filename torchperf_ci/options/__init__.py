"""The options of every command, each declared once."""

from __future__ import annotations

from torchperf_ci.options.keeping import INGEST_OPTIONS, QUERY_OPTIONS, RECEIVE_OPTIONS, UPLOAD_OPTIONS
from torchperf_ci.options.measuring import DOCTOR_OPTIONS, LIST_OPTIONS, RUN_OPTIONS
from torchperf_ci.options.option import Option, read_all

__all__ = [
    "DOCTOR_OPTIONS",
    "INGEST_OPTIONS",
    "LIST_OPTIONS",
    "QUERY_OPTIONS",
    "RECEIVE_OPTIONS",
    "RUN_OPTIONS",
    "UPLOAD_OPTIONS",
    "Option",
    "read_all",
]
