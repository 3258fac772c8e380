"""The results of the steps of ``caller/bisects.yml``, and what a canceled one leaves behind."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from fast_import import Stream

from torchperf_ci.culprits.culprit import read_culprits

if TYPE_CHECKING:
    from conftest import Act, Hostile, Runner

SCRIPT = Path(__file__).parents[2] / "actions/bisect/bisect.sh"
COSTS = (10, 10, 10, 20, 20)
SLOW = 3
PATIENCE = 120


def git(folder: Path, *arguments: str, stdin: bytes = b"") -> str:
    """What git prints."""
    command = ["git", *arguments]
    done = subprocess.run(command, cwd=folder, input=stdin, stdout=subprocess.PIPE, timeout=60, check=True)
    return done.stdout.decode().strip()


def commit_costs(folder: Path, message: str) -> list[str]:
    """Make a repository whose commits, which all have the same message, say what they cost; their hashes."""
    stream, parents = Stream(), ()
    for position, cost in enumerate(COSTS):
        files = {"cost": f"{cost}\n", "position": f"{position}\n"}
        parents = (stream.commit(message, files, parents),)
    folder.mkdir()
    git(folder, "init", "--quiet", "--initial-branch=main")
    git(folder, "fast-import", "--quiet", stdin=bytes(stream))
    return git(folder, "rev-list", "--reverse", "main").split()


@dataclass(frozen=True)
class Bisects:
    """The workflow, when all is over, and the commits that it searched."""

    act: Act
    shas: list[str]

    def step(self, name: str) -> dict[str, Any]:
        """A step's outcome and outputs."""
        found: dict[str, Any] = self.act.steps("bisect")[name]
        return found

    def said(self, command: str) -> list[str]:
        """The workflow commands of one kind, as the runner took them."""
        return [event["raw"] for event in self.act.commands("bisect", command)]

    @property
    def evidence(self) -> Path:
        """What the job left."""
        return self.act.evidence / "bisect"


@pytest.fixture(scope="module")
def bisects(runner: Runner, hostile: Hostile, tmp_path_factory: pytest.TempPathFactory) -> Bisects:
    """The caller's workflow, on a repository in which every subject is an attack."""
    folder = tmp_path_factory.mktemp("searched") / "suspects"
    shas = commit_costs(folder, hostile.text)
    return Bisects(runner.push("bisects", f"--var=SUSPECTS={folder}"), shas)


def test_a_culprit_is_told_and_fails_nothing(bisects: Bisects, hostile: Hostile) -> None:
    log = (bisects.act.evidence / "act.log").read_text()
    assert bisects.act.results == {"bisect": "success"}, log
    outputs, culprit = bisects.step("found")["outputs"], bisects.shas[SLOW]
    assert (outputs["status"], outputs["found"], outputs["exit-code"]) == ("found", "1", "0"), log
    assert outputs["commit"] == culprit
    assert outputs["culprits"] == f"{bisects.evidence}/{hostile.name}.json"
    assert outputs["state"] == f"{bisects.evidence}/{hostile.name}.jsonl"
    assert Path(outputs["state"]).exists()
    assert outputs["command"].startswith("/")
    assert [one.commit for one in read_culprits(Path(outputs["culprits"])).culprits] == [culprit]


def test_the_summary_and_a_warning_name_the_culprit(bisects: Bisects) -> None:
    name = bisects.shas[SLOW][:10]
    summary = bisects.act.commands("bisect", "summary")[0]["content"]
    assert re.search(f"^### .* 1 culprit found: {name} ", summary)
    assert any(line.startswith(f"::warning title=culprit%3A {name}") for line in bisects.said("warning"))


def test_what_nobody_can_tell_yet_is_a_warning_and_no_red_mark(bisects: Bisects) -> None:
    unclear = bisects.step("unclear")
    outputs = unclear["outputs"]
    assert (unclear["outcome"], outputs["exit-code"], outputs["status"]) == ("success", "5", "inconclusive")
    assert (outputs["found"], outputs["commit"]) == ("0", "")
    assert "::warning title=torchperf::The bisection is inconclusive" in "".join(bisects.said("warning"))


def test_the_next_search_goes_on_from_the_state_that_is_kept_by_default(bisects: Bisects) -> None:
    first, second = (bisects.step(name)["outputs"] for name in ("unclear", "continued"))
    assert first["state"] == second["state"]
    assert first["state"].endswith("/torchperf-bisect/state.jsonl")
    before, after = (read_culprits(Path(outputs["culprits"])) for outputs in (first, second))
    assert before.runs == 8
    assert after.readings[:8] == before.readings
    assert second["commit"] == bisects.shas[SLOW]


@pytest.mark.parametrize("name", ["hostile-range", "hostile-choice"])
def test_a_hostile_choice_is_refused_as_a_whole(bisects: Bisects, name: str) -> None:
    refused = bisects.step(name)
    assert (refused["outcome"], refused["outputs"]["exit-code"]) == ("failure", "2")


def test_an_output_holds_what_an_attacker_would_end_it_with(bisects: Bisects, hostile: Hostile) -> None:
    assert bisects.step("hostile-range")["outputs"]["state"].endswith(f"/{hostile.text}")


def test_nothing_hostile_is_run_or_speaks_to_the_runner(bisects: Bisects) -> None:
    assert (bisects.evidence / "pwned").read_text() == ""
    lines = bisects.said("error")
    assert any("pwned" in line for line in lines)
    assert not [line for line in lines if not line.startswith("::error title=")]


def test_no_trace_is_left_in_the_callers_packages_environment_and_checkout(bisects: Bisects) -> None:
    before, after = ((bisects.evidence / name).read_text() for name in ("before", "after"))
    assert "torch==" in before
    assert after == before
    assert len((bisects.evidence / "worktrees").read_text().splitlines()) == 1


def test_a_cancelled_job_cleans_up_and_keeps_its_state(tmp_path: Path) -> None:
    """The runner signals the step's shell alone."""
    suspects, begun, output = tmp_path / "suspects", tmp_path / "begun", tmp_path / "output"
    commit_costs(suspects, "A commit")
    environ = {
        "TORCHPERF": str(Path(sys.executable).with_name("torchperf")),
        "TORCHPERF_REPO": str(suspects),
        "TORCHPERF_GOOD": "HEAD~4",
        "TORCHPERF_BAD": "HEAD",
        "TORCHPERF_COMMAND": 'touch "$BEGUN"; sleep 300',
        "BEGUN": str(begun),
        "GITHUB_OUTPUT": str(output),
        "RUNNER_TEMP": str(tmp_path),
    }
    step = subprocess.Popen(
        ["bash", SCRIPT],
        env={**os.environ, **environ},
        start_new_session=True,
        # Whatever runs the tests may ignore it, and a shell cannot trap what it was started to ignore.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509  # it takes no lock
    )
    try:
        wait_for(begun)
        assert len(git(suspects, "worktree", "list").splitlines()) > 1
        step.send_signal(signal.SIGINT)
        assert step.wait(PATIENCE) == 143
    finally:
        with suppress(ProcessLookupError):
            os.killpg(step.pid, signal.SIGKILL)
        step.wait()
    state = tmp_path / "torchperf-bisect/state.jsonl"
    assert len(git(suspects, "worktree", "list").splitlines()) == 1
    assert '"build"' in state.read_text()
    assert f"\n{state}\n" in output.read_text()
    assert output.read_text().endswith("\nexit-code=143\n")


def wait_for(path: Path) -> None:
    """Until it is there."""
    for _ in range(PATIENCE * 10):
        if path.exists():
            return
        time.sleep(0.1)
    pytest.fail(f"{path} did not appear")
