"""Real workers that are started before they are needed."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest
from process_table import wait_until

from torchperf_ci.bench import pairs
from torchperf_ci.bench.case import Case, Settings
from torchperf_ci.bench.pairs import SIDES, PrestartedWorkers, measure_pair, spare_cpus
from torchperf_ci.bench.process import cache_of
from torchperf_ci.machine import host

SUITE = """
import torch
from torchperf_ci.suite import Task, workload

added = workload("ahead/sum", "a sum", modes=("inference",))(lambda n: Task(lambda x: x + 1, (torch.ones(64),)))
"""
CASE = Case("ahead/sum", "inference", "fp32", "eager", 1)
ONE = next(iter(os.sched_getaffinity(0)))


@pytest.fixture
def settings(torch_python: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """Of one CPU, beside which there seems to be another to spare."""
    (tmp_path / "suite.py").write_text(SUITE)
    monkeypatch.setattr(pairs, "spare_cpus", lambda _: (ONE,))
    return Settings(torch_python, "cpu", (str(tmp_path / "suite.py"),), budget=0.1, cpus=(ONE,))


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def _hash_seed(pid: int) -> str:
    environ = Path(f"/proc/{pid}/environ")
    wait_until(environ.read_text)  # it is empty while the process begins
    return next(one for one in environ.read_text().split("\0") if one.startswith("PYTHONHASHSEED="))


def test_what_was_started_is_what_is_measured_and_ends_with_it(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each with draws of its own, also where the pair before has chosen after these were started."""
    workers = PrestartedWorkers()
    workers.start(CASE, settings, settings, tmp_path)
    chosen = [cache_of(CASE, tmp_path / side) / "ab/x.best_config" for side in SIDES]
    for file in chosen:
        file.parent.mkdir(parents=True)
        file.touch()
    pids = [worker._worker.pid for pair in workers._started.values() for worker in pair]
    assert len({*map(_hash_seed, pids)}) == 2
    taken = workers.take(CASE, settings, settings, tmp_path)
    assert all(map(_runs, pids))
    monkeypatch.setattr(pairs, "open_worker", None)
    monkeypatch.setattr(pairs, "BLOCK_SECONDS", 0.02)
    assert measure_pair(CASE, settings, settings, tmp_path, taken).log_ratios
    assert not any(map(_runs, pids))
    assert not any(file.exists() for file in chosen)


@pytest.mark.parametrize("why", ["closed", "another case", "begun by the other"])
def test_what_was_started_in_vain_is_ended(settings: Settings, tmp_path: Path, why: str) -> None:
    workers = PrestartedWorkers()
    workers.start(CASE, settings, settings, tmp_path)
    pids = [worker._worker.pid for pair in workers._started.values() for worker in pair]
    match why:
        case "closed":
            workers.close()
        case "another case":
            workers.take(replace(CASE, batch_size=2), settings, settings, tmp_path)
        case _:
            workers.take(CASE, settings, settings, tmp_path, head_first=True)
    assert not any(map(_runs, pids))


def test_a_compiled_pair_starts_in_its_turn(settings: Settings, tmp_path: Path) -> None:
    workers = PrestartedWorkers()
    workers.start(replace(CASE, backend="inductor"), settings, settings, tmp_path)
    assert not workers._started


@pytest.mark.parametrize(
    ("device", "cpus", "quota", "spare"),
    [("cuda", (0,), None, 7), ("cpu", (0,), None, 0), ("cuda", (), None, 0), ("cuda", (0,), 4.5, 0)],
)
def test_cpus_are_spared_where_they_are_not_what_is_measured(
    monkeypatch: pytest.MonkeyPatch, device: str, cpus: tuple[int, ...], quota: float | None, spare: int
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    monkeypatch.setattr(host, "_cpu_quota", lambda _: quota)
    assert len(spare_cpus(Settings("python", device, cpus=cpus))) == spare


def test_few_cpus_are_all_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2, 3})
    assert spare_cpus(Settings("python", "cuda", cpus=(0,))) == ()
