"""Random properties of a process are drawn anew for each, without compiling anything again."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from torchperf_ci.bench import pairs
from torchperf_ci.bench.case import Case, Settings
from torchperf_ci.bench.pairs import start_pair
from torchperf_ci.bench.process import cache_of, measure, open_worker
from torchperf_ci.bench.user_command import InstalledBuild, command_environment
from torchperf_ci.bench.worker_client import MAX_PADDING, PADDING, forget_choices, random_variables

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

SUITE = Path(__file__).parents[1] / "support" / "autotuned_suite.py"
CASE = Case("autotuned/products", "inference", "fp32", "eager", 128)
COMPILED = ("ab/x.so", "ab/x.cpp", "triton/0/y.cubin", "triton/0/y.json", "extensions/z/build.ninja")
GRAPHS = ("fxgraph/aa/b", "aotautograd/c/d")
CHOSEN = ("ab/x.best_config", "cache/abc", "triton/0/y.autotune.json", "miopen/gfx.ufdb.txt", "ab/x.unknown")


@pytest.fixture
def settings(torch_python: str, tmp_path: Path) -> Settings:
    suite = shutil.copy(SUITE, tmp_path / "suite.py")
    return Settings(torch_python, "cpu", (str(suite),), target_ci=0.5, budget=0.1, timeout=240)


def timed(settings: Settings) -> Sequence[str]:
    """The winners, one a line for each time that the variants were timed."""
    return Path(settings.files[0]).with_name("timed").read_text().split()


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> Mapping[Path, Mapping[str, str]]:
    """The variables that each worker of a pair was given beside those of all workers, by its compiler cache."""
    found: dict[Path, Mapping[str, str]] = {}

    def kept(case: Case, settings: Settings, scratch: Path, more: Mapping[str, str]) -> Any:
        found[cache_of(case, scratch)] = more
        return open_worker(case, settings, scratch, more)

    monkeypatch.setattr(pairs, "open_worker", kept)
    return found


def test_idle_threads_of_an_arm_leave_the_cpus_to_the_other(
    settings: Settings, tmp_path: Path, given: Mapping[Path, Mapping[str, str]]
) -> None:
    with start_pair(CASE, settings, settings, tmp_path):
        assert [more["KMP_BLOCKTIME"] for more in given.values()] == ["1", "1"]


def test_the_processes_of_a_run_have_draws_of_their_own(settings: Settings, tmp_path: Path) -> None:
    """That compiled ones start warm all the same is seen in test_inductor.py, where all compile the same."""
    outcomes = [measure(CASE, settings, tmp_path / "s", first=False) for _ in range(2)]
    assert [one.status for one in outcomes] == ["pass"] * 2
    assert timed(settings) == ["40", "44"]


@pytest.mark.parametrize(("keep_graphs", "stays"), [(False, COMPILED), (True, (*COMPILED, *GRAPHS))])
def test_what_was_compiled_stays_and_what_was_chosen_goes(tmp_path: Path, keep_graphs: bool, stays) -> None:
    for name in (*COMPILED, *GRAPHS, *CHOSEN):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    assert forget_choices(tmp_path, keep_graphs=keep_graphs)
    left = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file()}
    assert left == {*stays}
    assert not forget_choices(tmp_path, keep_graphs=keep_graphs)
    assert not forget_choices(tmp_path / "nowhere")


def test_processes_differ_in_their_hash_seed_and_in_the_size_of_their_environment(tmp_path: Path) -> None:
    build = InstalledBuild(Settings(sys.executable, "cpu"), None, None, tmp_path)
    found = [command_environment(build) for _ in range(4)]
    assert len({one["PYTHONHASHSEED"] for one in found}) == 4
    assert len({len(one[PADDING]) for one in found}) > 1
    assert all(len(random_variables()[PADDING]) < MAX_PADDING for _ in range(4))


def test_a_cache_that_is_cleaned_meanwhile_is_as_well_forgotten(tmp_path: Path) -> None:
    with subprocess.Popen(
        ["sh", "-c", "while :; do mkdir -p a/b; rmdir a/b a; done"], cwd=tmp_path
    ) as cleaning:
        try:
            assert not any(forget_choices(tmp_path) for _ in range(2000))
        finally:
            cleaning.kill()
