"""Profiles of culprits, with made-up builds: which builds are profiled, what is kept, and what is reported."""

from __future__ import annotations

import json
import signal
import sys
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING
from unittest.mock import Mock

import numpy as np
import pytest

from torchperf_ci.bench.case import Case, Settings
from torchperf_ci.bench.profiles import Cost, Profile, ProfileKey
from torchperf_ci.bench.worker_client import WorkerFailure
from torchperf_ci.bisect import culprit_profile
from torchperf_ci.bisect.commits import BuildSequence
from torchperf_ci.bisect.culprit_profile import CulpritProfiler
from torchperf_ci.bisect.measurement_setup import BisectLimits, MeasurementSetup
from torchperf_ci.bisect.probes import CommandProbe, WorkloadProbe
from torchperf_ci.bisect.reasoning.evidence import SuspectRange
from torchperf_ci.bisect.state_file import StateFile
from torchperf_ci.culprits.culprit import OperatorCost
from torchperf_ci.deadline import Deadline
from torchperf_ci.environments.build_environment import BuildEnvironment
from torchperf_ci.environments.cache import EnvironmentCache
from torchperf_ci.environments.revisions import Revision
from torchperf_ci.errors import EnvironmentUnderTestError
from torchperf_ci.interruption import Stopped
from torchperf_ci.options.comparison_commands import BisectOptions

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PROBE = WorkloadProbe(Case("lab/net", "inference", "fp32", "eager", 4), device="cpu")
COMMAND = CommandProbe("sh run.sh")
COMPILING = WorkloadProbe(Case("lab/net", "inference", "fp32", "inductor", 4), ("compile_time(s)",), "cpu")
SHAS = [letter * 40 for letter in "abc"]
STEP = SuspectRange(1, 2)
FOLDER = "my-culprits.profiles/cccccccccc"
COPIES = {"a": 10.0, "b": 10.0, "c": 14.0}
"""How often a step copies, by commit."""


@dataclass
class Lab:
    """Everything around an inspector; ``taken`` has the first letters of the commits that were profiled."""

    folder: Path
    taken: list[str] = field(default_factory=list)
    failure: Exception | None = None

    def take(self, case: Case, setups: Settings, scratch: Path, trace: Path | None) -> Profile:
        assert case == PROBE.case
        if self.failure:
            raise self.failure
        commit = setups.path[0][0]
        self.taken.append(commit)
        if trace:
            trace.write_text(f"trace of {commit}")
        return Profile(
            {ProfileKey("operator", "aten::copy_"): Cost(COPIES[commit] / 8, COPIES[commit])}, {"print": 1}
        )

    def profiler(self, limits: BisectLimits | None = None) -> CulpritProfiler:
        sources = [Revision(self.folder, sha, "Change") for sha in SHAS]
        setup = MeasurementSetup((PROBE, COMMAND, COMPILING), Settings(sys.executable, "cpu"))
        options = BisectOptions(out=str(self.folder / "my culprits.json"))
        sequence = BuildSequence(sources, np.full(2, 0.5))
        environments = EnvironmentCache(self._opened)
        return CulpritProfiler(
            sequence, environments, setup, options, limits or BisectLimits(), self.folder, Mock()
        )

    @contextmanager
    def _opened(self, revision: Revision) -> Iterator[BuildEnvironment]:
        yield BuildEnvironment(sys.executable, (revision.sha,), str(revision))

    def kept(self) -> StateFile:
        return StateFile.open(self.folder / "state.jsonl", {"good": "a"})


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lab:
    lab = Lab(tmp_path)
    monkeypatch.setattr(culprit_profile, "take_profile", lab.take)
    return lab


def test_both_builds_are_profiled_twice_in_turn_and_what_moved_is_told(lab: Lab) -> None:
    with lab.kept() as kept:
        profiles = lab.profiler().profile({STEP: PROBE.name}, kept)
    assert lab.taken == ["b", "c", "c", "b"]
    found = profiles.inside[STEP]
    assert (found.probe, profiles.notes) == (PROBE.name, ())
    assert found.moved == (OperatorCost("aten::copy_", "operator", 1.25, 1.75, 10, 14),)
    names = ("operators.tsv", "old.trace.json.gz", "new.trace.json.gz")
    assert found.files == tuple(f"{FOLDER}/{name}" for name in names)
    assert [(lab.folder / file).read_text() for file in found.files[1:]] == ["trace of b", "trace of c"]
    assert found.commands == (
        f"column -t -s \"$(printf '\\t')\" {FOLDER}/operators.tsv | less -S",
        f"# open in https://ui.perfetto.dev, a tab each: {FOLDER}/{names[1]} {FOLDER}/{names[2]}",
    )


def test_the_next_job_goes_on_with_what_was_seen_and_the_files_that_it_has(lab: Lab) -> None:
    with lab.kept() as kept:
        first = lab.profiler().profile({STEP: PROBE.name}, kept)
    for name in ("old.trace.json.gz", "new.trace.json.gz"):
        (lab.folder / FOLDER / name).unlink()
    with lab.kept() as kept:
        second = lab.profiler().profile({STEP: PROBE.name}, kept)
    assert len(lab.taken) == 4
    seen = second.inside[STEP]
    assert seen.files == (f"{FOLDER}/operators.tsv",)
    assert replace(seen, files=(), commands=()) == replace(first.inside[STEP], files=(), commands=())


@pytest.mark.parametrize(
    "failure",
    [
        WorkerFailure("crashed", "the worker exited with code 7", "log"),
        EnvironmentUnderTestError("it is not there\nand more"),
        FileNotFoundError(2, "No such file or directory"),
    ],
)
def test_what_cannot_be_profiled_is_told_and_tried_again_by_the_next_job(
    lab: Lab, failure: Exception
) -> None:
    lab.failure = failure
    with lab.kept() as kept:
        profiles = lab.profiler().profile({STEP: PROBE.name}, kept)
    assert profiles.inside == {}
    assert profiles.notes == (f"profiles of cccccccccc Change: {str(failure).splitlines()[0]}",)
    lab.failure = None
    with lab.kept() as kept:
        assert STEP in lab.profiler().profile({STEP: PROBE.name}, kept).inside


def test_what_cannot_be_attached_is_told_beside_what_was_seen(lab: Lab) -> None:
    (lab.folder / "my-culprits.profiles").write_text("in the way")
    with lab.kept() as kept:
        profiles = lab.profiler().profile({STEP: PROBE.name}, kept)
    assert (profiles.inside[STEP].files, profiles.inside[STEP].commands) == ((), ())
    assert "my-culprits.profiles" in profiles.notes[0]


def test_after_the_deadline_nothing_is_begun(lab: Lab) -> None:
    with lab.kept() as kept:
        profiles = lab.profiler(BisectLimits(deadline=Deadline.after(0))).profile({STEP: PROBE.name}, kept)
    assert (lab.taken, profiles.inside) == ([], {})
    assert "the limit of --deadline left no time" in profiles.notes[0]


@pytest.mark.parametrize("probe", [COMMAND, COMPILING])
def test_nobody_profiles_a_command_or_a_compilation(lab: Lab, probe: CommandProbe | WorkloadProbe) -> None:
    with lab.kept() as kept:
        profiles = lab.profiler().profile({STEP: probe.name}, kept)
        assert (lab.taken, profiles.inside, profiles.notes) == ([], {}, ())
        both = lab.profiler().profile({SuspectRange(0, 2): probe.name, STEP: PROBE.name}, kept)
    assert [*both.inside] == [STEP]


def test_who_stops_the_bisection_stops_it_here_as_well(lab: Lab) -> None:
    lab.failure = Stopped(signal.SIGINT)
    with lab.kept() as kept, pytest.raises(Stopped):
        lab.profiler().profile({STEP: PROBE.name}, kept)


def test_the_table_has_every_row(lab: Lab) -> None:
    with lab.kept() as kept:
        lab.profiler().profile({STEP: PROBE.name}, kept)
    header, row = (lab.folder / FOLDER / "operators.tsv").read_text().splitlines()
    cells = dict(zip(header.split("\t"), row.split("\t"), strict=True))
    assert cells == {
        "kind": "operator",
        "old_ms": "1.250000",
        "new_ms": "1.750000",
        "change_ms": "+0.500000",
        "noise_ms": "0.000000",
        "old_count": "10",
        "new_count": "14",
        "moved": "time, count",
        "name": "aten::copy_",
    }
    assert json.loads((lab.folder / "state.jsonl").read_text().splitlines()[1])["look"]["base"] == 1
