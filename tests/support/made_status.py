"""A record that says how a case ended, as torchperf's own uploads have it."""

from __future__ import annotations

import time
from typing import Any


def a_status(model: str, **extra_info: str) -> dict[str, Any]:
    """That of a case that passed yesterday; ``extra_info`` is the metric's."""
    return {
        "timestamp": int(time.time()) - 86_400,
        "workflow_id": 7,
        "run_attempt": 1,
        "job_id": 1,
        "benchmark": {
            "name": "nightly",
            "mode": "inference",
            "dtype": "fp32",
            "extra_info": {"device": "cpu"},
        },
        "model": {"name": model, "backend": "eager"},
        "metric": {"name": "status", "benchmark_values": [1.0], "extra_info": extra_info},
        "runners": [{"name": "cpu", "type": "Xeon"}],
    }
