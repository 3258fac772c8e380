"""Make the parsed answers of a worker from plain data."""

from __future__ import annotations

import msgspec

from torchperf_ci.bench.worker.protocol import WorkerAnswers


def answers(**told: object) -> WorkerAnswers:
    """By verb, as JSON has it."""
    return msgspec.convert(told, WorkerAnswers)
