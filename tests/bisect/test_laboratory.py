"""Measurements by real processes on handwritten builds, one folder per commit of the range."""

from __future__ import annotations

import math
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING
from unittest.mock import Mock

import pytest

from torchperf_ci.bench import pairs, user_command
from torchperf_ci.bench.case import Case, Settings
from torchperf_ci.bench.pairs import Pair, SideFailure
from torchperf_ci.bench.worker_client import WorkerFailure
from torchperf_ci.bisect import laboratory
from torchperf_ci.bisect.laboratory import Laboratory
from torchperf_ci.bisect.measurement_setup import BisectLimits, MeasurementSetup
from torchperf_ci.bisect.probes import UNNAMED_SERIES, CommandProbe, WorkloadProbe
from torchperf_ci.bisect.reasoning.evidence import BisectReading, BuildAttempt, PlannedPair, ProbeFailure
from torchperf_ci.environments.build_environment import BuildEnvironment
from torchperf_ci.environments.cache import EnvironmentCache
from torchperf_ci.environments.revisions import Revision
from torchperf_ci.errors import EnvironmentUnderTestError, WorkloadsFailedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

SUITE = """
import torch
from torchperf_ci.suite import Task, workload
from under_test import product

@workload("lab/matmul", "a matmul, as the code under test does it", modes=("inference",))
def matmul(batch_size):
    return Task(product, (torch.randn(256, 256),))
"""
PRODUCT = "def product(x):\n    return x @ x\n"
SLOWER = "def product(x):\n    for _ in range(3):\n        y = x @ x\n    return y\n"
CRASHES = "import os\n\ndef product(x):\n    os._exit(7)\n"
WORKLOAD = WorkloadProbe(Case("lab/matmul", "inference", "fp32", "eager", 1), device="cpu")
LATENCY = "lab/matmul latency(ms) (inference fp32 eager cpu)"
COMMAND = CommandProbe("sh run.sh")


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is planted is large."""
    monkeypatch.setattr(user_command, "PAIR_SECONDS", 0.0)
    monkeypatch.setattr(pairs, "BLOCK_SECONDS", 0.02)
    monkeypatch.setattr(pairs, "QUADS", 3)


@pytest.fixture
def made() -> list[str]:
    """The SHAs of the environments that were made, in order."""
    return []


@pytest.fixture
def opened(torch_python: str, made: list[str]):
    """Make an environment of the folder that is called as the commit, if there is one."""

    @contextmanager
    def opened(revision: Revision, draw: int = 0) -> Iterator[BuildEnvironment]:
        made.append(revision.sha)
        folder = revision.repo / f"{revision.sha}{f'.{draw}' if draw else ''}"
        if not folder.is_dir():
            msg = f"{revision} does not build"
            raise EnvironmentUnderTestError(msg)
        yield BuildEnvironment(torch_python, (str(folder),), str(revision), folder, folder)

    return opened


@pytest.fixture
def a_laboratory(tmp_path: Path, opened) -> Iterator[Callable[..., Laboratory]]:
    """Over commits with these sources of ``file``; None is one that does not build."""
    with EnvironmentCache(opened) as environments:

        def make(probe: CommandProbe | WorkloadProbe, file: str, *sources: str | None) -> Laboratory:
            (tmp_path / "suite.py").write_text(SUITE)
            revisions = [
                Revision(tmp_path, str(position) * 40, f"change {position}")
                for position in range(len(sources))
            ]
            for revision, source in zip(revisions, sources, strict=True):
                if source is not None:
                    (tmp_path / revision.sha).mkdir()
                    (tmp_path / revision.sha / file).write_text(source)
            settings = Settings("no python", "cpu", (str(tmp_path / "suite.py"),), budget=0.2, timeout=60)
            setup = MeasurementSetup((probe,), settings)
            return Laboratory(revisions, environments, setup, tmp_path / "scratch", BisectLimits())

        yield make


def test_a_build_is_a_fact_whether_or_not_it_can_be_made(a_laboratory, made: list[str]) -> None:
    lab = a_laboratory(COMMAND, "run.sh", "echo 1", None)
    good, bad, again = lab.build(0), lab.build(1), lab.build(0)
    assert good == BuildAttempt(0, ok=True, seconds=good.seconds)
    assert bad == BuildAttempt(1, ok=False, seconds=bad.seconds, why="1111111111 change 1 does not build")
    assert again.ok
    assert len(made) == 2


def redraw(folder: Path, lab: Laboratory, position: int, draw: int, source: str) -> BuildAttempt:
    """Make a commit anew, with other files below its own folder than the first time."""
    again = folder / f"{str(position) * 40}.{draw}"
    again.mkdir()
    (again / "run.sh").write_text(source)
    return lab.build(position, draw)


def test_a_pair_is_of_the_draws_that_it_was_asked_for(a_laboratory, tmp_path: Path) -> None:
    lab = a_laboratory(COMMAND, "run.sh", "echo 1", "echo 1")
    built = redraw(tmp_path, lab, 1, 3, "echo 2")
    assert built == BuildAttempt(1, ok=True, seconds=built.seconds, draw=3)
    first, anew = (lab.measure(PlannedPair("command", 0, 1, "verify", (0, draw))) for draw in (0, 3))
    assert (first.log_ratios, first.draws) == ({UNNAMED_SERIES: 0.0}, (0, 0))
    assert (anew.log_ratios, anew.draws) == ({UNNAMED_SERIES: pytest.approx(math.log(2))}, (0, 3))
    control = lab.measure(PlannedPair("command", 1, 1, "control", (3, 3)))
    assert (control.log_ratios, control.draws) == ({UNNAMED_SERIES: 0.0}, (3, 3))


def test_a_draw_that_fails_is_tried_once_more_and_leaves_the_commit_as_it_was(
    a_laboratory, made: list[str]
) -> None:
    lab = a_laboratory(COMMAND, "run.sh", "echo 1", "echo 1")
    lab.build(1)
    failed = lab.build(1, 1)
    assert (failed.ok, failed.draw, failed.why) == (False, 1, "1111111111 change 1 does not build")
    assert made == ["1" * 40] * 3
    assert lab.measure(PlannedPair("command", 0, 1, "verify", (0, 1))).draws == (0, 0), "of what there is"


def test_a_draw_that_comes_out_the_same_is_a_fact(a_laboratory, tmp_path: Path, monkeypatch) -> None:
    lab = a_laboratory(COMMAND, "run.sh", "echo 1", "echo 1")
    lab.build(1)
    for draw, same in ((1, False), (2, True)):
        monkeypatch.setattr(EnvironmentCache, "is_repeated", lambda *_, same=same: same)
        assert redraw(tmp_path, lab, 1, draw, "echo 1").repeated == same


def test_a_slower_commit_reads_positive(a_laboratory) -> None:
    lab = a_laboratory(COMMAND, "run.sh", "echo 1", "echo 1", "echo 2")
    reading = lab.measure(PlannedPair("command", 1, 2, "verify"))
    expected = {UNNAMED_SERIES: pytest.approx(math.log(2))}
    coarse = {UNNAMED_SERIES: 1.0}
    assert reading == BisectReading("command", 1, 2, expected, "verify", reading.seconds, resolution=coarse)
    faster = lab.measure(PlannedPair("command", 2, 1, "locate"))
    assert faster.log_ratios == {UNNAMED_SERIES: pytest.approx(-math.log(2))}


def test_head_begins_where_it_is_to(a_laboratory, tmp_path: Path) -> None:
    tells = "echo {} >> ../turns; echo {}"
    lab = a_laboratory(COMMAND, "run.sh", tells.format("good", 1), tells.format("bad", 2))
    reading = lab.measure(PlannedPair("command", 0, 1, "verify", head_first=True))
    assert reading.head_first
    assert reading.log_ratios == {UNNAMED_SERIES: pytest.approx(math.log(2))}
    assert (tmp_path / "turns").read_text().split()[-4:] == ["bad", "good", "good", "bad"]


def test_pairs_on_a_busy_machine_are_told_of(a_laboratory, monkeypatch: pytest.MonkeyPatch) -> None:
    busy = {"seconds": "3.0", "cpus": "2", "load": "9.00", "other_cpus": "1.70", "cpu_pressure": "0.930"}
    lab = a_laboratory(COMMAND, "run.sh", "echo 1", "echo 1")
    assert lab.remarks == []
    monkeypatch.setattr("torchperf_ci.bisect.laboratory.watch_interference", lambda *_: nullcontext(busy))
    for _ in range(2):
        lab.measure(PlannedPair("command", 0, 1, "locate"))
    [disturbed] = lab.remarks
    assert disturbed.startswith(
        "⚠ disturbed during the measurement (2 pairs): load 9.0 on 2 CPUs, 1.7 of them"
    )


def test_the_first_run_on_a_new_build_does_not_count(a_laboratory) -> None:
    cold_once = "[ -e warm ] && echo 1 || echo 9; touch warm"
    lab = a_laboratory(COMMAND, "run.sh", cold_once, cold_once)
    assert lab.measure(PlannedPair("command", 0, 1, "locate")).log_ratios == {UNNAMED_SERIES: 0.0}


@pytest.mark.parametrize(
    ("succeed", "lost"),
    [("1|3|5", 2), ("2|7|12", 9)],
    ids=["every_other", "in_a_row"],
)
def test_a_run_that_fails_by_chance_is_repeated_and_told(a_laboratory, succeed: str, lost: int) -> None:
    """As one that loses its connection: whole pairs would rarely be without such a run."""
    some = f"echo >> runs; case $(wc -l < runs) in {succeed}) echo 1;; *) echo reset by peer; exit 3;; esac"
    lab = a_laboratory(COMMAND, "run.sh", "echo 1", some)
    assert isinstance(lab.measure(PlannedPair("command", 0, 1, "locate")), BisectReading)
    told = lab.remarks[-1]  # a busy machine is told of before
    assert told.startswith(f"the command fails by chance: {lost} runs had to be repeated on the same build")
    assert told.endswith("it exited with code 3 … reset by peer")


def test_a_pair_that_fails_once_is_taken_again(a_laboratory) -> None:
    fails_third = "echo >> runs; [ $(wc -l < runs) != 3 ] && echo 1"
    lab = a_laboratory(COMMAND, "run.sh", "echo 1", fails_third)
    assert isinstance(lab.measure(PlannedPair("command", 0, 1, "locate")), BisectReading)


@pytest.mark.parametrize(("base", "head", "at_fault"), [(0, 1, 1), (1, 2, 1)])
def test_a_command_that_fails_does_so_at_a_position(
    a_laboratory, base: int, head: int, at_fault: int
) -> None:
    lab = a_laboratory(COMMAND, "run.sh", "echo 1", "echo no such operator >&2; exit 3", "echo 1")
    found = lab.measure(PlannedPair("command", base, head, "locate"))
    assert found == ProbeFailure("command", at_fault, "failed: it exited with code 3\nno such operator")


def test_a_good_commit_on_which_nothing_runs_is_the_users_to_change(a_laboratory) -> None:
    lab = a_laboratory(COMMAND, "run.sh", "exit 3", "echo 1")
    with pytest.raises(
        WorkloadsFailedError, match=r"does not run on 0000000000 change 0, .*code 3\nchoose a --good"
    ):
        lab.measure(PlannedPair("command", 0, 1, "confirm"))


def test_a_probe_that_does_not_run_on_good_ends_only_a_search_that_has_no_other(
    a_laboratory, tmp_path: Path
) -> None:
    lab = a_laboratory(COMMAND, "run.sh", "exit 3", "echo 1")
    setup = MeasurementSetup((COMMAND, WORKLOAD), lab._settings)
    both = Laboratory(lab._sources, lab._environments, setup, tmp_path, BisectLimits())
    step = PlannedPair("command", 0, 1, "confirm")
    assert both.measure(step) == ProbeFailure("command", 0, "failed: it exited with code 3")
    with pytest.raises(WorkloadsFailedError, match="does not run on 0000000000 change 0"):
        both.measure(replace(step, probe=WORKLOAD.name))


def test_a_build_that_is_there_no_more_is_a_failure_at_its_position(a_laboratory, made) -> None:
    lab = a_laboratory(COMMAND, "run.sh", "echo 1", None)
    assert lab.measure(PlannedPair("command", 0, 1, "locate")) == ProbeFailure(
        "command", 1, "1111111111 change 1 does not build"
    )
    assert made.count("1" * 40) == 2


def test_a_slower_workload_reads_positive_and_compiles_in_a_folder_of_its_commit(
    a_laboratory, tmp_path: Path
) -> None:
    lab = a_laboratory(WORKLOAD, "under_test.py", PRODUCT, SLOWER)
    reading = lab.measure(PlannedPair(WORKLOAD.name, 0, 1, "confirm"))
    assert reading.log_ratios[LATENCY] > math.log(1.5)
    assert 0 < reading.values[LATENCY] < 1000
    folders = [tmp_path / "scratch" / f"{position}.0" / WORKLOAD.case.key for position in (0, 1)]
    assert all((folder / "worker.log").is_file() for folder in folders)


def test_a_workload_that_crashes_is_a_failure_where_it_does_so_alone(
    a_laboratory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(laboratory, "RUNS", 2)
    lab = a_laboratory(WORKLOAD, "under_test.py", PRODUCT, CRASHES, PRODUCT)
    found = lab.measure(PlannedPair(WORKLOAD.name, 1, 2, "verify"))
    assert isinstance(found, ProbeFailure)
    assert (found.probe, found.position) == (WORKLOAD.name, 1)
    assert "exited with code 7" in found.why


def test_a_workload_that_crashes_by_chance_is_measured(a_laboratory, monkeypatch: pytest.MonkeyPatch) -> None:
    """With one process in five, nine of ten searches of twenty pairs lost a commit, which may be bad itself."""
    crash = SideFailure("head", WorkerFailure("crashed", "the worker was killed by SIGSEGV during block"))
    measured = Mock(side_effect=[crash, crash, crash, Pair((0.1,), 1.0, 1.0)])
    monkeypatch.setattr(laboratory, "measure_pair", measured)
    lab = a_laboratory(WORKLOAD, "under_test.py", PRODUCT, PRODUCT)
    reading = lab.measure(PlannedPair(WORKLOAD.name, 0, 1, "confirm"))
    assert reading.log_ratios == {LATENCY: pytest.approx(0.1)}


def test_what_runs_alone_only_is_a_failure_of_head(a_laboratory, monkeypatch: pytest.MonkeyPatch) -> None:
    short = SideFailure("base", WorkerFailure("oom", "2 GiB too few"))
    monkeypatch.setattr(laboratory, "measure_pair", Mock(side_effect=short))
    lab = a_laboratory(WORKLOAD, "under_test.py", PRODUCT, PRODUCT)
    found = lab.measure(PlannedPair(WORKLOAD.name, 0, 1, "locate"))
    assert found.position == 1
    assert found.why.endswith("but not beside 0000000000 change 0: base: oom: 2 GiB too few")


def test_each_build_is_tried_out_once_for_all_its_pairs(a_laboratory, tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    source = f"echo >> '{runs}'; echo 1"
    lab = a_laboratory(COMMAND, "run.sh", source, source)
    seen = []
    for _ in range(2):
        lab.measure(PlannedPair("command", 0, 1, "confirm"))
        seen.append(len(runs.read_text()))
    first, both = seen
    assert both - first == first - 2


def test_what_yields_none_of_its_numbers_is_a_failure_of_head(
    a_laboratory, monkeypatch: pytest.MonkeyPatch
) -> None:
    probe = WorkloadProbe(WORKLOAD.case, ("peak_memory(MiB)",), "cpu")
    monkeypatch.setattr(laboratory, "measure_pair", Mock(return_value=Pair((0.0,), 1.0, 1.0)))
    monkeypatch.setattr(laboratory, "measure_alone", Mock(return_value=Mock(passed=True)))
    lab = a_laboratory(probe, "under_test.py", PRODUCT, PRODUCT)
    found = lab.measure(PlannedPair(probe.name, 0, 1, "locate"))
    assert found.position == 1
    assert found.why.endswith("head: failed: there is no number of peak_memory(MiB) above 0")


@pytest.mark.parametrize(("metric", "cold"), [("compile_cpu_time(s)", True), ("graph_breaks", False)])
def test_everything_is_compiled_anew_only_if_that_is_what_is_measured(
    a_laboratory, monkeypatch: pytest.MonkeyPatch, metric: str, cold: bool
) -> None:
    probe = WorkloadProbe(replace(WORKLOAD.case, backend="inductor"), (metric,), "cpu")
    measured = Mock(return_value=Pair((0.0,), 1.0, 1.0, {metric: 2.0}, {metric: 5.0}))
    monkeypatch.setattr(laboratory, "measure_pair", measured)
    lab = a_laboratory(probe, "under_test.py", PRODUCT, PRODUCT)
    reading = lab.measure(PlannedPair(probe.name, 0, 1, "confirm"))
    assert measured.call_args.kwargs["cold"] is cold
    assert reading.log_ratios == {
        f"lab/matmul {metric} (inference fp32 inductor cpu)": pytest.approx(
            math.log(2.0 if not cold else 2.5)
        )
    }


def test_a_metric_that_a_pair_does_not_yield_is_a_fact(a_laboratory, monkeypatch: pytest.MonkeyPatch) -> None:
    probe = WorkloadProbe(WORKLOAD.case, ("latency(ms)", "peak_memory(MiB)"), "cpu")
    monkeypatch.setattr(laboratory, "measure_pair", Mock(return_value=Pair((0.0,), 1.0, 1.0)))
    lab = a_laboratory(probe, "under_test.py", PRODUCT, PRODUCT)
    reading = lab.measure(PlannedPair(probe.name, 0, 1, "confirm"))
    assert [*reading.log_ratios] == [LATENCY]
    assert reading.missing == (LATENCY.replace("latency(ms)", "peak_memory(MiB)"),)
