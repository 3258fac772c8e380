"""``--batch-size auto`` is determined once, with the good build, and reused by every later job."""

from __future__ import annotations

from typing import TYPE_CHECKING
from unittest.mock import Mock

import pytest

from torchperf_ci.bench.case import Case, Settings
from torchperf_ci.bench.worker_client import WorkerFailure
from torchperf_ci.bisect import laboratory
from torchperf_ci.bisect.commits import BuildSequence, uniform
from torchperf_ci.bisect.laboratory import with_batch_size
from torchperf_ci.bisect.measurement_setup import MeasurementSetup
from torchperf_ci.bisect.probes import CommandProbe, Probe, WorkloadProbe
from torchperf_ci.bisect.reasoning.evidence import BisectReading, BuildAttempt
from torchperf_ci.bisect.search import _with_batch_sizes
from torchperf_ci.bisect.state_file import StateFile
from torchperf_ci.environments.revisions import Revision
from torchperf_ci.errors import WorkloadsFailedError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

OPEN = WorkloadProbe(Case("made/net", "inference", "fp32", "eager", 0))
CRASH = ("crashed", "the worker exited with code 7")
SETTINGS = Settings("the good build's python", "cpu")


@pytest.fixture
def find(monkeypatch: pytest.MonkeyPatch) -> Mock:
    find = Mock(return_value=32)
    monkeypatch.setattr(laboratory, "find_batch_size", find)
    return find


def in_a_job(probe: Probe, folder: Path) -> Probe:
    with StateFile.open(folder / "state.jsonl", {"good": "a"}) as kept:
        return with_batch_size(probe, SETTINGS, "0123456789 Start", kept, folder)


def test_it_is_found_by_the_good_build_and_kept_for_the_next_job(tmp_path: Path, find: Mock) -> None:
    first = in_a_job(OPEN, tmp_path)
    find.return_value = 64
    assert (
        first == in_a_job(OPEN, tmp_path) == WorkloadProbe(Case("made/net", "inference", "fp32", "eager", 32))
    )
    [(case, settings, _)] = [call.args for call in find.call_args_list]
    assert case == OPEN.case
    assert settings.python == SETTINGS.python
    assert settings.cpus


def test_what_was_measured_with_it_is_continued(tmp_path: Path, find: Mock) -> None:
    """Readings name the size, where the plan has "auto": each call began anew."""
    path, plan = tmp_path / "state.jsonl", {"good": "a", "suspects": 1, "probes": [OPEN.name]}
    with StateFile.open(path, plan) as state:
        probe = with_batch_size(OPEN, SETTINGS, "0123456789 Start", state, tmp_path)
        for position in (0, 1):
            state.add(BuildAttempt(position, ok=True))
        state.add(BisectReading(probe.name, 0, 1, {"s": 0.1}, "confirm"))
    with StateFile.open(path, plan) as state:
        assert state.anew == ""
        assert [reading.probe for reading in state.facts.readings] == [probe.name]
        state.add(BisectReading(OPEN.name.replace("auto", "7"), 0, 1, {"s": 0.1}, "confirm"))
    with StateFile.open(path, plan) as state:
        assert "there is no such probe" in state.anew
    find.assert_called_once()


@pytest.mark.parametrize(
    "probe", [CommandProbe("true"), WorkloadProbe(Case("made/net", "inference", "fp32", "eager", 4))]
)
def test_what_has_one_keeps_it(probe: Probe, tmp_path: Path, find: Mock) -> None:
    assert in_a_job(probe, tmp_path) is probe
    find.assert_not_called()


def test_a_good_build_that_finds_none_is_the_users_to_change(tmp_path: Path, find: Mock) -> None:
    find.side_effect = WorkerFailure(*CRASH)
    with pytest.raises(
        WorkloadsFailedError, match=r"does not run on 0123456789 Start.*\n?.*exited with code 7"
    ):
        in_a_job(OPEN, tmp_path)


def test_one_workload_that_finds_none_does_not_end_the_search_of_the_others(
    tmp_path: Path, find: Mock
) -> None:
    other = WorkloadProbe(Case("made/broken", "inference", "fp32", "eager", 0))
    find.side_effect = [WorkerFailure(*CRASH), 32, WorkerFailure(*CRASH)]
    found = of_a_search([other, OPEN], tmp_path)
    assert [probe.name for probe in found.probes] == [OPEN.name.replace("auto", "32")]
    known, note = found.notes
    assert known == "there was one"
    assert note.startswith(f"{other.name} does not run on 0123456789 Start, the good commit: ")
    with pytest.raises(WorkloadsFailedError, match="made/broken"):
        of_a_search([other], tmp_path)


def of_a_search(probes: Sequence[Probe], folder: Path) -> MeasurementSetup:
    good = Revision(folder, "0123456789", "Start")
    with StateFile.open(folder / "state.jsonl", {"good": "a"}) as kept:
        setup = MeasurementSetup(tuple(probes), SETTINGS, notes=("there was one",))
        return _with_batch_sizes(setup, BuildSequence([good], uniform(1)), kept, folder)
