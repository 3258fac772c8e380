"""With a damaged state file from a cache, the search continues or starts anew, and never crashes."""

from __future__ import annotations

import json
import os
import random
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import Mock

import numpy as np
import pytest
from simulated_range import Silent, Simulated, SimulatedRange, bisected

from torchperf_ci.bisect import state_file as state_module
from torchperf_ci.bisect.commits import BuildSequence
from torchperf_ci.bisect.conclusion import SearchResult, conclude
from torchperf_ci.bisect.culprit_profile import CulpritProfiles
from torchperf_ci.bisect.measurement_setup import BisectLimits, MeasurementSetup
from torchperf_ci.bisect.reasoning.evidence import BisectNote, ProbeBatchSize, ProbeFailure, ProfiledStep
from torchperf_ci.bisect.reasoning.investigation import Investigation
from torchperf_ci.bisect.search import investigate
from torchperf_ci.bisect.state_file import StateFile
from torchperf_ci.culprits.culprit import OperatorCost, ProfileChange
from torchperf_ci.culprits.culprit import culprits_json as culprits_text
from torchperf_ci.environments.revisions import Revision
from torchperf_ci.errors import OutputDirectoryError, ResumeError

if TYPE_CHECKING:
    from collections.abc import Callable

N = 6
LATENCY = "vision/resnet18 latency(ms) (inference fp32 eager cpu)"
PLAN = {"good": "a", "bad": "b", "suspects": N, "probes": ["p"], "min_effect": 0.03}
MOVED = OperatorCost("aten::mm", "operator", None, 1.5, None, None)
ADDED = ("values", "draw", "draws", "repeated", "head_first", "missing")
RECORDING = Path(__file__).parents[2] / "docs" / "img" / "bisection.state.jsonl"
LOOK = ProfiledStep(3, 4, ProfileChange("p", (MOVED,)))

KINDS = ("batchsize", "build", "reading", "failure", "look", "note")

ODD: tuple[Any, ...] = (
    *(
        None,
        True,
        "",
        "x",
        "\x1b[31m",
        -1,
        0,
        1,
        N,
        N + 1,
        2**31,
        10**400,
        0.5,
        1e308,
        float("nan"),
        -float("inf"),
    ),
    *([], [1], {}, {"": 1}, {LATENCY: "x"}, {LATENCY: float("nan")}, {LATENCY: 1e9}, {LATENCY: True}),
)


def world(seed: int = 0) -> SimulatedRange:
    return SimulatedRange(N, {LATENCY: Simulated({4: 1.2})}, unbuildable=frozenset({2}), seed=seed)


@pytest.fixture(scope="module")
def lines(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """The lines of a bisection in which everything happened that may happen."""
    path = tmp_path_factory.mktemp("whole") / "state.jsonl"
    with StateFile.open(path, PLAN) as state:
        state.add(ProbeBatchSize("p", 8))
        for event in bisected(world()).events:
            state.add(event)
        state.add(ProbeFailure("p", 1, "crashed"))
        state.add(LOOK)
        state.add(BisectNote("triton moved, too: 3.1 → 3.2"))
    found = [json.loads(line) for line in path.read_text().splitlines()]
    assert {kind for line in found for kind in line} == {"plan", *KINDS}
    return found


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state.jsonl"


def write(path: Path, lines: list[Any]) -> None:
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))


def is_continued(path: Path) -> bool:
    """Whether the file is used. If so, bisect with what it holds, to the end and to all that is told."""
    with StateFile.open(path, PLAN, forget_others=True) as state:
        if state.anew:
            assert not state.facts.builds
            assert len(path.read_text().splitlines()) == 1
            return False
        range_ = world(seed=1)
        question = range_.question()
        ended = investigate(question, range_, state, BisectLimits(pairs=50), Silent(question, "0123456"))
        known = Investigation(question, state.facts)
        states = [Revision(Path("repo"), f"{place:040d}", "") for place in range(N + 1)]
        line = BuildSequence(states, np.full(N, 1 / N))
        found = SearchResult(
            line, known, ended, MeasurementSetup((), Mock()), CulpritProfiles(state.profiles)
        )
        assert '"status"' in culprits_text(conclude(found, {}))
    with StateFile.open(path, PLAN) as again:
        assert not again.anew, "what was written now is sound"
    return True


def test_a_whole_file_is_continued(path: Path, lines: list[Any]) -> None:
    write(path, lines)
    assert is_continued(path)


@pytest.mark.parametrize(
    ("kind", "member"),
    [
        *(
            ("reading", name)
            for name in (
                "probe",
                "base",
                "head",
                "log_ratios",
                "purpose",
                "seconds",
                "values",
                "draws",
                "head_first",
                "missing",
            )
        ),
        *(("build", name) for name in ("position", "ok", "seconds", "why", "draw", "repeated")),
        *(("failure", name) for name in ("probe", "position", "why")),
        *(("batchsize", name) for name in ("probe", "size")),
        ("note", "text"),
        *(("look", name) for name in ("base", "head", "inside")),
    ],
)
def test_a_member_may_be_anything_or_missing(path: Path, lines: list[Any], kind: str, member: str) -> None:
    numbers = [number for number, line in enumerate(lines) if kind in line]
    number = random.Random(f"{kind} {member}").choice(numbers)
    for value in ODD:
        write(path, [*lines[:number], {kind: {**lines[number][kind], member: value}}, *lines[number + 1 :]])
        is_continued(path)
    members = {name: value for name, value in lines[number][kind].items() if name != member}
    write(path, [*lines[:number], {kind: members}, *lines[number + 1 :]])
    assert is_continued(path) == (member in ADDED), "older files lack it"


def test_what_an_earlier_version_wrote_is_continued(path: Path) -> None:
    path.write_bytes(RECORDING.read_bytes())
    lines = [json.loads(line) for line in RECORDING.read_text().splitlines()]
    plan = {name: value for name, value in lines[0]["plan"].items() if name != "state"}
    with StateFile.open(path, plan) as state:
        assert not state.anew
        facts = state.facts
    kinds = Counter(kind for line in lines[1:] for kind in line)
    assert kinds == {
        "reading": len(facts.readings),
        "build": len(facts.builds),
        "failure": len(facts.failures),
    }
    assert {(reading.draws, *reading.values) for reading in facts.readings} == {((0, 0),)}
    assert path.read_bytes() == RECORDING.read_bytes()


READING = {"probe": "p", "base": 0, "head": 0, "log_ratios": {LATENCY: 0.1}, "seconds": 1.0, "values": {}}


def test_a_build_may_be_read_against_itself_as_a_control_alone(path: Path, lines: list[Any]) -> None:
    build = {"build": {"position": 0, "ok": True, "seconds": 1.0, "why": "", "draw": 3}}
    control = READING | {"purpose": "control", "draws": [3, 3]}
    write(path, [*lines, build, {"reading": control}])
    with StateFile.open(path, PLAN) as state:
        assert state.facts.readings[-1].draws == (3, 3)
    others = ({"purpose": "verify"}, {"draws": [0, 3]}, {"draws": [4, 4]}, {"head": N})
    for other in others:
        write(path, [*lines, build, {"reading": control | other}])
        with StateFile.open(path, PLAN) as state:
            assert state.anew, other


def add(line: Any) -> Callable[[list[Any]], list[Any]]:
    return lambda lines: [*lines, line]


@pytest.mark.parametrize(
    "changed",
    [
        add({"verdict": {}}),
        add({"note": {"text": "x", "more": 1}}),
        add({}),
        add([]),
        add(3),
        add({"build": {}}),
        add({"build": 3}),
        add({"build": {"position": 1, "ok": True, "seconds": 1.0, "why": "", "more": 1}}),
        add({"build": {"position": 1.5, "ok": True, "seconds": 1.0, "why": ""}}),
        add({"look": {**asdict(LOOK), "inside": {**asdict(LOOK.inside), "commands": ["rm -rf /"]}}}),
        add({"look": {**asdict(LOOK), "inside": {"probe": "p", "moved": [{"name": 3, "kind": "operator"}]}}}),
        add(
            {
                "look": {
                    **asdict(LOOK),
                    "inside": {"probe": "p", "moved": [{**asdict(MOVED), "new_ms": 1e999}]},
                }
            }
        ),
        lambda lines: [lines[0], *lines[1:][::-1]],
        lambda lines: lines[1:],
        lambda lines: [{"plan": {**lines[0]["plan"], "state": 0}}, *lines[1:]],
        lambda lines: [{"plan": {**lines[0]["plan"], "bad": "c"}}, *lines[1:]],
        lambda lines: [{"plan": []}, *lines[1:]],
        lambda lines: lines * 2,
    ],
)
def test_what_no_bisection_of_this_plan_writes_starts_anew(
    path: Path, lines: list[Any], changed: Any
) -> None:
    write(path, changed(lines))
    with StateFile.open(path, PLAN, forget_others=True) as state:
        assert "it was dropped, and this bisection starts anew" in state.anew
        assert str(path) in state.anew
        assert not state.facts.readings
    assert is_continued(path)


@pytest.mark.parametrize(
    ("kind", "member", "number"),
    [
        ("reading", "seconds", 1e10),
        ("reading", "seconds", -1.0),
        ("reading", "draws", [2**32, 0]),
        ("reading", "log_ratios", {LATENCY: 51.0}),
        ("reading", "resolution", {LATENCY: 1e301}),
        ("reading", "values", {LATENCY: 1e301}),
        ("build", "draw", 2**32),
        ("batchsize", "size", 0),
    ],
)
def test_a_number_beyond_its_bounds_starts_anew(
    path: Path, lines: list[Any], kind: str, member: str, number: Any
) -> None:
    line = next(line[kind] for line in lines if kind in line)
    write(path, [*lines, {kind: line}])
    with StateFile.open(path, PLAN) as state:
        assert not state.anew
    write(path, [*lines, {kind: {**line, member: number}}])
    with StateFile.open(path, PLAN) as state:
        assert state.anew


def test_what_stands_twice_was_learnt_twice(path: Path, lines: list[Any]) -> None:
    write(path, [line for line in lines for _ in range(1 if "plan" in line else 2)])
    assert is_continued(path)


@pytest.mark.parametrize("seed", range(20))
def test_bytes_may_be_anything(path: Path, lines: list[Any], seed: int) -> None:
    write(path, lines)
    content, chance = bytearray(path.read_bytes()), random.Random(seed)
    for _ in range(chance.randint(1, 3)):
        start = chance.randrange(len(content))
        match chance.randrange(3):
            case 0:
                content[start] = chance.randrange(256)
            case 1:
                del content[start : start + chance.randrange(200)]
            case _:
                content[start:start] = content[: chance.randrange(200)]
    path.write_bytes(content)
    is_continued(path)


def test_another_bisection_is_left_alone_where_its_owner_can_be_asked(path: Path, lines: list[Any]) -> None:
    write(path, [{"plan": {**lines[0]["plan"], "bad": "c"}}, *lines[1:]])
    before = path.read_bytes()
    with pytest.raises(ResumeError, match="bad changed"):
        StateFile.open(path, PLAN)
    assert path.read_bytes() == before


def fill(state: StateFile) -> None:
    for _ in range(20):
        state.add(LOOK)


@pytest.mark.parametrize(("limit", "most"), [("MAX_BYTES", 1000), ("MAX_EVENTS", 4)])
def test_a_file_that_is_too_large_starts_anew_and_none_grows_so(
    path: Path, lines: list[Any], monkeypatch: pytest.MonkeyPatch, limit: str, most: int
) -> None:
    write(path, lines)
    monkeypatch.setattr(state_module, limit, most)
    with StateFile.open(path, PLAN) as state:
        assert "more than any bisection writes" in state.anew
        with pytest.raises(OutputDirectoryError, match="it is full"):
            fill(state)


def test_a_hundred_megabytes_are_not_even_read(path: Path) -> None:
    with path.open("wb") as file:
        file.write(b'{"plan": {')
        file.truncate(100 * 2**20)
    with StateFile.open(path, PLAN) as state:
        assert "holds 100 MiB" in state.anew
    assert path.stat().st_size < 1000


def test_a_link_or_a_pipe_is_neither_followed_nor_waited_for(path: Path, tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("mine")
    path.symlink_to(tmp_path / "precious")
    with pytest.raises(OutputDirectoryError):
        StateFile.open(path, PLAN)
    assert (tmp_path / "precious").read_text() == "mine"
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(OutputDirectoryError, match="no regular file"):
        StateFile.open(path, PLAN)
