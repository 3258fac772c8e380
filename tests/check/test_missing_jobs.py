from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from checking import check, notes, record, run
from made_points import point, row, series

from torchperf_ci.check.command import missing_jobs
from torchperf_ci.check.missing_series import absent_machines
from torchperf_ci.places import open_place
from torchperf_ci.store.ingest import ingest_place
from torchperf_ci.store.migrations import open_store

ROOT = Path("records")
ALL = ["h100-core-1-of-2", "h100-core-2-of-2", "spr-core"]


def file_of(job: str) -> Path:
    return ROOT / f"torchperf-records-{job}" / "resnet.json"


def test_nothing_is_said_where_all_have_delivered() -> None:
    assert not missing_jobs(ROOT, map(file_of, ALL), ALL)


def test_who_has_delivered_nothing_is_named() -> None:
    assert missing_jobs(ROOT, [file_of(ALL[0])], ALL) == [
        "h100-core-2-of-2: nothing was measured",
        "spr-core: nothing was measured",
    ]


@pytest.mark.parametrize(
    "file",
    [
        ROOT / "torchperf-records-h100-core-1-of-20" / "resnet.json",
        ROOT / "more" / "torchperf-records-h100-core-1-of-2" / "resnet.json",
        Path("elsewhere/torchperf-records-h100-core-1-of-2/resnet.json"),
    ],
)
def test_only_the_jobs_own_folder_counts(file: Path) -> None:
    assert missing_jobs(ROOT, [file, file_of(ALL[1])], ALL[:2]) == ["h100-core-1-of-2: nothing was measured"]


def test_a_file_deep_in_the_folder_counts() -> None:
    assert not missing_jobs(ROOT, [file_of(ALL[0]).parent / "run-2" / "a.json.gz"], ALL[:1])


def test_a_single_artifact_lies_without_a_folder_of_its_own(tmp_path: Path) -> None:
    assert not missing_jobs(tmp_path, [tmp_path / "resnet.json"], ALL[:1])
    assert not missing_jobs(tmp_path, [tmp_path / "resnet.json"], ALL[:1] * 2), (
        "a name given twice is one job"
    )
    (tmp_path / f"torchperf-records-{ALL[1]}").mkdir()
    assert missing_jobs(tmp_path, [tmp_path / "resnet.json"], ALL[:1]) == [f"{ALL[0]}: nothing was measured"]


@pytest.mark.parametrize("root", [ROOT, Path("torchperf-records-h100") / "records"])
def test_of_several_nobody_knows_whose_such_records_are(root: Path) -> None:
    assert missing_jobs(root, [root / "resnet.json"], ALL) == [
        "which of the 3 expected jobs measured this is not known: no folder is torchperf-records-NAME"
    ]


def test_nobody_is_expected_where_nobody_is_named() -> None:
    assert not missing_jobs(ROOT, [ROOT / "resnet.json"], [])


MACHINES = ("H100", "MI300", "Xeon")


def of_machine(arch: str, day: int) -> dict[str, Any]:
    """The record of a night's job; each machine has one."""
    machine = {"name": "cuda", "type": arch, "extra_info": {}}
    return record("latency(ms)", 10.0 + day / 100, day, runners=[machine], job_id=1 + MACHINES.index(arch))


@pytest.mark.usefixtures("here")
def test_a_machine_of_every_night_is_told_of_if_it_has_measured_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The jobs of the night are judged together, and nobody says who is expected."""
    for day in range(6):
        other = {"benchmark": {"name": "of another folder"}}
        run(tmp_path / "past", f"run-{day}", [of_machine(arch, day) for arch in MACHINES])
        run(tmp_path / "past", f"other-{day}", [of_machine(MACHINES[0], day) | other])
    with open_store(f"chdb://{tmp_path}/store") as store:
        ingest_place(store, open_place(str(tmp_path / "past")))
    night = run(tmp_path, "night", [of_machine(arch, 6) for arch in MACHINES[:2]])
    said = ["cuda (Xeon): nothing was measured, but in each of the last 5 runs"]
    for against in (["--store", f"chdb://{tmp_path}/store"], ["--against", tmp_path / "past"]):
        assert check(night, *against) == 0
        assert notes(tmp_path) == said
    capsys.readouterr()
    assert check(night, "--sensitivity", *against) == 0
    assert MACHINES[1] in (shown := capsys.readouterr().out)
    assert MACHINES[2] not in shown
    own = run(tmp_path, "own", [of_machine("H100", 6)])
    assert check(own, *against) == 0
    assert notes(tmp_path) == []
    assert check(night, "--expect", "a", "b", *against) == 0
    assert [note.split(" measured ")[0] for note in notes(tmp_path)] == ["which of the 2 expected jobs"]


def test_a_machine_is_not_missed_on_another_branch_or_if_it_does_not_measure_every_night() -> None:
    here, there, sometimes = (series(arch=arch) for arch in MACHINES)
    old = {here: row([10.0] * 9), there: row([10.0] * 9), sometimes: row([10.0] * 8)}
    old = {name: [one._replace(branch="main") for one in points] for name, points in old.items()}
    assert absent_machines(old, {here: row([10.0], 9, branch="main")}) == [
        "cuda (MI300): nothing was measured, but in each of the last 5 runs"
    ]
    assert absent_machines(old, {here: row([10.0], 9, branch="a-pull-request")}) == []
    assert absent_machines({here: old[here][:4], there: old[there][:4]}, {here: old[here][4:5]}) == []


def test_a_machine_that_takes_turns_is_not_missed() -> None:
    """Each of two shards gets one of two machines by chance; tonight, one machine got both."""
    turns = {
        series(model=model, arch=arch): [point(10.0, day) for day in range(20) if (day + shard) % 2 == place]
        for place, arch in enumerate(("EPYC", "Xeon"))
        for shard, model in enumerate(("first", "second"))
    }
    tonight = {series(model=model, arch="EPYC"): row([10.0], 20) for model in ("first", "second")}
    assert absent_machines(turns, tonight) == []
    assert absent_machines(turns, {name: tonight[name] for name in [*tonight][:1]}) != []
