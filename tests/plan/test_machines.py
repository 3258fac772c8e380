from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from made_points import series

from torchperf_ci.plan.bisections import runners_of_series
from torchperf_ci.plan.jobs import MeasurementJob

if TYPE_CHECKING:
    from pathlib import Path

JOBS = [
    MeasurementJob("h100-core", "h100", ("h100",), "cuda", False, "core", "1/1"),
    MeasurementJob("spr-core", "spr", ("spr",), "cpu", False, "core", "1/1"),
    MeasurementJob("graviton-core", "graviton", ("graviton",), "cpu", False, "core", "1/1"),
]


def deliver(folder: Path, device: str, arch: str, model: str = "resnet") -> None:
    """What a job has measured: fresh records, which name no repository."""
    folder.mkdir(parents=True, exist_ok=True)
    record = {
        "benchmark": {"name": "nightly", "mode": "inference", "dtype": "bf16"},
        "model": {"name": model, "backend": "eager"},
        "metric": {"name": "latency(ms)", "benchmark_values": [1.0]},
        "runners": [{"name": device, "type": arch}],
    }
    (folder / f"{model}.json").write_text(json.dumps([record]))


@pytest.fixture
def records(tmp_path: Path) -> Path:
    """Two of three jobs have delivered."""
    deliver(tmp_path / "torchperf-records-h100-core", "cuda", "H100")
    deliver(tmp_path / "torchperf-records-spr-core", "cpu", "Xeon")
    return tmp_path


@pytest.mark.parametrize(
    ("arch", "model", "runner"),
    [("H100", "resnet", "h100"), ("H100", "bert", "h100"), ("H200", "resnet", ""), ("Xeon", "resnet", "")],
)
def test_the_runner_is_that_of_the_same_machine(arch: str, model: str, runner: str, records: Path) -> None:
    found = runners_of_series(JOBS, records)
    assert found(series(model=model, arch=arch)) == runner
    assert found(series("compile_time(s)", model=model, arch=arch, device="cuda")) == runner


def test_of_two_runners_with_one_kind_of_machine_it_is_the_one_that_measured_the_case(records: Path) -> None:
    deliver(records / "torchperf-records-graviton-core", "cpu", "Xeon", "bert")
    found = runners_of_series(JOBS, records)
    assert found(series(device="cpu", arch="Xeon")) == "spr"
    assert found(series(device="cpu", arch="Xeon", model="bert")) == "graviton"
    assert found(series(device="cpu", arch="Xeon", model="t5")) == "spr"


def test_the_only_runner_has_measured_everything(tmp_path: Path) -> None:
    assert runners_of_series(JOBS[:1], tmp_path)(series()) == "h100"
