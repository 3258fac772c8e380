"""Pairs of user commands of two builds; the worktree of each build contains what its command prints."""

from __future__ import annotations

import json
import math
import sys
from typing import TYPE_CHECKING

import pytest

from torchperf_ci.bench import user_command
from torchperf_ci.bench.case import Settings
from torchperf_ci.bench.pairs import SideFailure
from torchperf_ci.bench.user_command import (
    QUADS,
    InstalledBuild,
    _further_quads,
    _log_ratio,
    measure_command_pair,
    run_user_command,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    MakeBuild = Callable[[str, str], InstalledBuild]


@pytest.fixture(autouse=True)
def _one_quad(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(user_command, "PAIR_SECONDS", 0.0)


@pytest.fixture
def a_build(tmp_path: Path) -> MakeBuild:
    """A build whose script, ``run.sh``, tells that it was there and then does what is given."""

    def make(name: str, script: str) -> InstalledBuild:
        tree = tmp_path / name
        tree.mkdir()
        (tree / "run.sh").write_text(f"echo {name} >> {tmp_path}/turns\n{script}\n")
        return InstalledBuild(
            Settings(sys.executable, "cpu", timeout=30), name, tree, tmp_path / f"{name}-scratch"
        )

    return make


def run_on(build: InstalledBuild) -> Mapping[str, float]:
    return run_user_command("sh run.sh", build, lambda output: json.loads(output.read_text()))


def test_the_builds_take_turns_and_their_ratio_is_told(a_build: MakeBuild, tmp_path: Path) -> None:
    base, head = (
        a_build("base", 'echo \'{"time": 2, "mem": 5}\''),
        a_build("head", 'echo \'{"time": 3, "mem": 5}\''),
    )
    ratios = measure_command_pair(run_on, base, head)
    assert ratios == {"time": pytest.approx(math.log(1.5)), "mem": 0.0}
    assert (tmp_path / "turns").read_text().split() == ["base", "head", "head", "base"]


def test_head_may_begin(a_build: MakeBuild, tmp_path: Path) -> None:
    base, head = a_build("base", "echo '{\"time\": 2}'"), a_build("head", "echo '{\"time\": 3}'")
    ratios = measure_command_pair(run_on, base, head, head_first=True)
    assert ratios == {"time": pytest.approx(math.log(1.5))}
    assert (tmp_path / "turns").read_text().split() == ["head", "base", "base", "head"]


def test_a_linear_drift_cancels(a_build: MakeBuild, tmp_path: Path) -> None:
    slower = f"n=$(wc -l < {tmp_path}/turns); echo '{{\"time\": '$n'}}'"
    assert measure_command_pair(run_on, a_build("a", slower), a_build("b", slower)) == {"time": 0.0}


def test_a_quick_command_is_run_often(
    a_build: MakeBuild, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(user_command, "PAIR_SECONDS", 600.0)
    same = "echo '{\"time\": 1}'"
    measure_command_pair(run_on, a_build("base", same), a_build("head", same))
    assert len((tmp_path / "turns").read_text().split()) == 4 * QUADS


@pytest.mark.parametrize(("seconds", "more"), [(0.0, 9), (0.1, 9), (1.0, 3), (3.9, 0), (600.0, 0)])
def test_quads_are_as_many_as_fit_and_never_none(
    seconds: float, more: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(user_command, "PAIR_SECONDS", 4.0)
    assert _further_quads(seconds) == more


def test_the_side_that_fails_is_named(a_build: MakeBuild) -> None:
    with pytest.raises(SideFailure, match="failed: it exited with code 7") as failure:
        measure_command_pair(run_on, a_build("base", "echo '{\"time\": 1}'"), a_build("head", "exit 7"))
    assert failure.value.side == "head"


def test_only_what_every_run_prints_is_compared(a_build: MakeBuild) -> None:
    base, head = (
        a_build("base", 'echo \'{"old": 1, "time": 1}\''),
        a_build("head", 'echo \'{"time": 1, "new": 1}\''),
    )
    assert measure_command_pair(run_on, base, head) == {"time": 0.0}


def test_builds_with_nothing_in_common_are_told(a_build: MakeBuild) -> None:
    base, head = a_build("base", "echo '{\"old\": 1}'"), a_build("head", "echo '{\"new\": 1}'")
    with pytest.raises(SideFailure, match="base prints old and head new"):
        measure_command_pair(run_on, base, head)


def test_the_ratio_of_a_quad_is_that_of_its_means() -> None:
    assert _log_ratio(({"t": 1.0}, {"t": 4.0}, {"t": 2.0}, {"t": 2.0}), "t") == pytest.approx(math.log(2))
