from __future__ import annotations

import random
import subprocess
import sys
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from torchperf_ci.bisect.reasoning.evidence import (
    BisectFacts,
    BisectNote,
    BisectReading,
    BuildAttempt,
    ProbeFailure,
    ProfiledStep,
)
from torchperf_ci.bisect.search import _opened_state
from torchperf_ci.bisect.state_file import StateFile
from torchperf_ci.culprits.culprit import OperatorCost, ProfileChange
from torchperf_ci.errors import OutputDirectoryError, ResumeError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

PLAN = {
    "good": "a" * 40,
    "bad": "b" * 40,
    "suspects": 7,
    "probes": ["mlp"],
    "machine": "linux x86-64",
    "min_effect": 0.03,
}
READING = BisectReading("mlp", 0, 7, {"latency(ms)": 0.07, "memory": -0.0}, "confirm", 12.5)
GOOD = BuildAttempt(0, ok=True, seconds=61.0)
BUILD = BuildAttempt(7, ok=True, seconds=60.0)
AGAIN = BuildAttempt(7, ok=True, seconds=9.0, draw=1)
REDRAWN = BisectReading("mlp", 0, 7, {"latency(ms)": 0.01}, "verify", draws=(0, 1))
BROKEN = BuildAttempt(3, ok=False, why="error: no such file\n\x1b[31m \ud800")
FAILURE = ProbeFailure("mlp", 4, "crashed")
NOTE = BisectNote("triton moved, too: 3.1 → 3.2")
MOVED = OperatorCost("aten::mm", "kernel", None, 1.5, None, 2.0)
LOOK = ProfiledStep(3, 4, ProfileChange("mlp", (MOVED,), ("print",)))

IMPORTS = f"""
import sys
from pathlib import Path
from {ProbeFailure.__module__} import {ProbeFailure.__name__} as Failure
from {StateFile.__module__} import {StateFile.__name__} as State
"""

# Runs in a process of its own: adds numbered failures, and says of each when it is kept.
WRITER = """
with State.open(Path(sys.argv[1]), {"good": "a"}) as state:
    print("open", flush=True)
    for i in range(len(state.facts.failures), int(sys.argv[2])):
        state.add(Failure("p" * 2000, i, "crashed"))
        print(i, flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "new" / "state.jsonl"


def writing(path: Path, most: int) -> AbstractContextManager[subprocess.Popen[str]]:
    command = [sys.executable, "-c", IMPORTS + WRITER, str(path), str(most)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def test_what_was_learnt_is_there_in_the_next_job(path) -> None:
    events = [GOOD, BUILD, READING, BROKEN, FAILURE, LOOK, NOTE, AGAIN, REDRAWN]
    with StateFile.open(path, PLAN) as state:
        assert state.facts == BisectFacts()
        for event in events:
            state.add(event)
        kept = state.facts
    assert kept == BisectFacts((READING, REDRAWN), (GOOD, BUILD, BROKEN, AGAIN), (FAILURE,))
    with StateFile.open(path, dict(reversed(PLAN.items()))) as state:
        assert (state.facts, state.notes) == (kept, (NOTE.text,))
        assert state.profiles == {(3, 4): LOOK.inside}
        state.add(BUILD)
    with StateFile.open(path, PLAN) as state:
        assert state.facts.builds == (GOOD, BUILD, BROKEN, AGAIN, BUILD)


texts, positions, probes = st.text(), st.integers(0, 7), st.just("mlp")
ratios, seconds = st.floats(-50, 50), st.floats(0, 1e9)
events = st.one_of(
    st.builds(
        BisectReading,
        *(probes, st.just(0), st.just(7)),
        *(st.dictionaries(texts, ratios, min_size=1), st.just("verify"), seconds),
    ),
    st.builds(BuildAttempt, positions, st.booleans(), seconds, texts),
    st.builds(ProbeFailure, probes, positions, texts),
)


@settings(max_examples=30, deadline=None)  # the disk may be slow
@given(st.lists(events))
def test_any_event_comes_back_as_it_was(tmp_path_factory, added) -> None:
    path = tmp_path_factory.mktemp("state") / "state.jsonl"
    with StateFile.open(path, PLAN) as state:
        for event in (GOOD, BUILD, *added):
            state.add(event)
        kept = state.facts
    with StateFile.open(path, PLAN) as state:
        assert state.facts == kept


def test_what_failed_after_the_last_build_is_tried_again_once(path) -> None:
    failed = [BuildAttempt(position, ok=False, why="no network") for position in (3, 5, 5)]
    proven = BisectReading("mlp", 0, 7, {"latency(ms)": 0.07}, "verify")
    with StateFile.open(path, PLAN) as state:
        for event in (GOOD, failed[0], BUILD, *failed[1:], proven, FAILURE):
            state.add(event)
        state.retry_failures()
    with StateFile.open(path, PLAN) as state:
        assert state.facts == BisectFacts((replace(proven, purpose="locate"),), (GOOD, failed[0], BUILD))
        state.add(failed[1])
        state.add(FAILURE)
        state.retry_failures()
        assert state.facts.builds[3:] == (failed[1],)
        assert state.facts.failures == (FAILURE,)


def test_another_bisection_is_refused_with_what_differs(path) -> None:
    with StateFile.open(path, PLAN) as state:
        state.add(BUILD)
    content = path.read_bytes()
    with pytest.raises(
        ResumeError, match=r'machine changed \(machine: "linux x86-64" → "macos"\).*--state'
    ) as error:
        StateFile.open(path, {**PLAN, "machine": "macos"})
    assert "delete this one" in str(error.value)
    assert path.read_bytes() == content


@pytest.mark.parametrize("content", ["what I noted\n", '{\n "version": 1,\n "culprits": []\n}\n', "\0" * 99])
def test_a_file_of_another_kind_that_is_named_by_mistake_is_refused_and_kept(path, content: str) -> None:
    path.parent.mkdir()
    path.write_text(content)
    with pytest.raises(ResumeError, match="name another file with --state"):
        StateFile.open(path, PLAN)
    assert path.read_text() == content
    with StateFile.open(path, PLAN, forget_others=True) as state:
        assert "it was dropped" in state.anew, "in a job, it comes from a cache"


def test_in_a_job_each_kind_of_machine_that_a_label_gives_goes_on_with_its_own(path, monkeypatch) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    notes = []
    for machine in ("EPYC", "Xeon", "EPYC", "Xeon"):
        plan = {**PLAN, "machine": machine, "packages": {"python": f"that of {machine}"}}
        with _opened_state(path, plan) as state:
            state.add(BisectNote(machine))
            notes.append(state.notes)
    assert notes == [("EPYC",), ("Xeon",), ("EPYC",) * 2, ("Xeon",) * 2]
    with _opened_state(path, {**plan, "machine": "EPYC", "bad": "c" * 40}) as state:
        assert "bad: " in state.anew


def test_the_file_of_another_version_makes_way(path, monkeypatch) -> None:
    StateFile.open(path, PLAN).close()
    monkeypatch.setattr("torchperf_ci.bisect.state_file.STATE_VERSION", 2)
    with StateFile.open(path, PLAN) as state:
        assert "state: 1 → 2" in state.anew


def test_one_file_serves_one_process_at_a_time_until_that_is_gone(path) -> None:
    with writing(path, most=0) as other:
        assert other.stdout.readline() == "open\n"
        with pytest.raises(ResumeError, match="in use by another bisection: wait"):
            StateFile.open(path, PLAN)
        other.kill()
        other.wait(timeout=60)
        StateFile.open(path, {"good": "a"}).close()


def test_who_is_refused_lets_go_of_the_file(path) -> None:
    StateFile.open(path, PLAN).close()
    with pytest.raises(ResumeError) as refused:
        StateFile.open(path, {})
    StateFile.open(path, PLAN).close()
    assert refused


def test_a_kill_at_any_moment_loses_nothing_that_was_kept(path) -> None:
    kept = -1
    for seed in range(8):
        with writing(path, most=10_000) as writer:
            told = list(_told(writer, random.Random(seed).uniform(0, 0.05)))
        with StateFile.open(path, {"good": "a"}) as state:
            heads = [failure.position for failure in state.facts.failures]
        assert heads == list(range(len(heads)))
        kept = max([kept, *told])
        assert len(heads) - 1 in (kept, kept + 1)  # the last may have been written and not yet told
        kept = len(heads) - 1
    assert kept > 0, "the kills came too early to mean anything"


def _told(writer: subprocess.Popen[str], seconds: float) -> Iterator[int]:
    """What it says was kept until it is killed, ``seconds`` after it began."""
    assert writer.stdout
    assert writer.stdout.readline() == "open\n"
    time.sleep(seconds)
    writer.kill()
    yield from (int(line) for line in writer.stdout if line.endswith("\n"))
    writer.wait(timeout=60)


def test_a_place_where_nothing_can_be_written_is_told(tmp_path) -> None:
    (tmp_path / "file").touch()
    for path in (tmp_path / "file" / "state.jsonl", tmp_path):
        with pytest.raises(OutputDirectoryError, match=r"cannot be written.*--state"):
            StateFile.open(path, PLAN)


FULL = """
import resource
from torchperf_ci.culprits.culprit import OperatorCost, ProfileChange
from torchperf_ci.errors import OutputDirectoryError
resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))
try:
    with State.open(Path(sys.argv[1]), {"good": "a"}) as state:
        for _ in range(100):
            state.add(Failure("p", 1, "x" * 100))
except OutputDirectoryError as error:
    print(len(state.facts.failures), error)
"""


def test_a_full_disk_is_told_and_what_was_kept_before_stays(path) -> None:
    command = [sys.executable, "-c", IMPORTS + FULL, str(path)]
    told = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
    number, _, why = told.partition(" ")
    assert "cannot be written" in why
    with StateFile.open(path, {"good": "a"}) as state:
        assert len(state.facts.failures) == int(number) > 0
