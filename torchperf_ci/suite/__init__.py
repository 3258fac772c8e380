"""The workloads. Imports only torch and the standard library, because it runs in the environment under test."""

from __future__ import annotations

from torchperf_ci.suite.hugging_face import huggingface
from torchperf_ci.suite.workload import Task, Workload, per_device, workload

__all__ = ["Task", "Workload", "huggingface", "per_device", "workload"]
