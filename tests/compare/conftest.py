"""Made-up cases and pairs, and what real workers compare."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING

import pytest
from checkout import Checkout

from torchperf_ci.bench.case import Case
from torchperf_ci.bench.pairs import Pair
from torchperf_ci.compare.compared_case import ComparedCase
from torchperf_ci.metrics import GRAPH_BREAKS, PEAK_MEMORY
from torchperf_ci.series.points import Series

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from checkout import Git

SUITE = """
import os
import torch
from torchperf_ci.suite import Task, workload

def fails_on(*sides):
    def model(x):
        if os.environ.get("SIDE") in sides:
            raise ZeroDivisionError("on purpose")
        return x + 1
    return model

def one(name, *sides):
    return workload(f"made/{name}", "a sum", modes=("inference",))(lambda n: Task(fails_on(*sides), (torch.ones(64),)))

runs = one("runs")
breaks = one("breaks", "head")
"""


@pytest.fixture
def a_case() -> Callable[..., Case]:
    return lambda name="one", backend="eager": Case(f"made/{name}", "inference", "fp32", backend, 4)


@pytest.fixture
def a_pair() -> Callable[..., Pair]:
    def pair(log_ratio: float = 0.0, peaks=(100.0, 100.0), graph_breaks=(None, None)) -> Pair:
        base, head = (
            {PEAK_MEMORY: peak} | ({} if count is None else {GRAPH_BREAKS: float(count)})
            for peak, count in zip(peaks, graph_breaks, strict=True)
        )
        return Pair((log_ratio,) * 3, 0.002, 0.003, base, head)

    return pair


@pytest.fixture
def a_compared_case(a_case, a_pair) -> Callable[..., ComparedCase]:
    """A case measured ``pairs`` times with a change and a spread, and base against itself after every third."""

    def compared(change: float = 0.0, pairs: int = 12, sd: float = 0.005, **more) -> ComparedCase:
        noise = random.Random(pairs)
        comparison = [a_pair(change + noise.gauss(0, sd)) for _ in range(pairs)]
        return ComparedCase(
            a_case(**more), comparison, [(n, noise.gauss(0, sd)) for n in range(3, pairs + 1, 3)]
        )

    return compared


@pytest.fixture
def naming() -> Callable[[Case, str], Series]:
    def series(case: Case, metric: str) -> Series:
        return Series("", "b", case.workload, case.mode, case.dtype, case.backend, "cpu", "x", metric)

    return series


@pytest.fixture
def checkout(tmp_path: Path, git: Git) -> Checkout:
    """The repository of a user who is in the middle of something."""
    folder = tmp_path / "repo with a space"
    folder.mkdir()
    return Checkout(folder, git)


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("suite") / "suite.py"
    path.write_text(SUITE)
    return str(path)


METRICS = {
    "latency": "latency(ms)",
    "throughput": "throughput(samples/s)",
    "score": "score(points)",
    "leak": "memory_leak(KiB/iter)",
}


@pytest.fixture
def folder(tmp_path: Path) -> Callable[..., Path]:
    """A directory with one record a metric."""

    def write(name: str, facts: dict[str, str] | None = None, **metrics) -> Path:
        (tmp_path / name).mkdir(exist_ok=True)
        machine = {"governor": "performance", "torch_threads": "2", **(facts or {})}
        for number, (metric, values) in enumerate(metrics.items()):
            extra = values if isinstance(values, dict) else {}
            record = {
                "benchmark": {
                    "name": "b",
                    "mode": "inference",
                    "dtype": "fp32",
                    "extra_info": {"batch_size": "8"},
                },
                "model": {"name": "m", "backend": "eager"},
                "metric": {
                    "name": METRICS.get(metric, metric),
                    "benchmark_values": extra.pop("values", []) if extra else values,
                    "extra_info": extra,
                },
                "runners": [
                    {
                        "name": "cpu",
                        "type": "x",
                        "extra_info": {**machine, "fingerprint_of": ",".join(machine)},
                    }
                ],
            }
            (tmp_path / name / f"{number}.json").write_text(json.dumps([record]))
        return tmp_path / name

    return write
