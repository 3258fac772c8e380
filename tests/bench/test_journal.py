from __future__ import annotations

import os
import resource
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from torchperf_ci.bench.case import Case, Settings
from torchperf_ci.bench.pairs import Pair
from torchperf_ci.bench.process import ProcessOutcome
from torchperf_ci.bench.results import CaseResult, RunSetting
from torchperf_ci.bench.run import JournalLine, RunJournal, RunPlan, free_folder, newest_folder
from torchperf_ci.bench.worker.protocol import Built, FirstStep, WorkerAnswers
from torchperf_ci.errors import OutputDirectoryError, ResumeError
from torchperf_ci.records.files import OWN_FOLDER
from torchperf_ci.records.record import Dependency

PLAN = {"cases": ["a", "b"], "budget": 3.0, "files": ("x.py",)}
A, B = (Case(name, "inference", "fp32", "eager", 0) for name in "ab")
OUTCOME = ProcessOutcome(
    "pass", answers=WorkerAnswers(Built(12), FirstStep(1.5, 1.25)), observed={"pressure": "0.1"}, seconds=1.5
)


def test_what_was_added_is_there_after_resuming(tmp_path: Path) -> None:
    journal = RunJournal(tmp_path / "new" / "out", PLAN)
    journal.add(JournalLine(A.key, batch_size=64))
    journal.add(JournalLine(A.key, OUTCOME))
    journal.add(JournalLine(A.key, ProcessOutcome("oom", "too big")))
    pair = Pair(
        (0.01, 0.02), 0.5, 0.51, {"peak_memory(MiB)": 1.5}, {"peak_memory(MiB)": 2.0}, {"pressure": "0.1"}
    )
    journal.add(JournalLine(A.key, pair=pair))
    journal.add(JournalLine(B.key, unpaired="the anchor does not have it"))
    again = RunJournal(tmp_path / "new" / "out", PLAN, resume=True)
    outcomes = [OUTCOME, ProcessOutcome("oom", "too big")]
    assert again.result(A) == CaseResult(replace(A, batch_size=64), outcomes, [pair])
    assert again.result(B) == CaseResult(B, [], [], "the anchor does not have it")


def test_a_pair_that_an_earlier_version_wrote_is_read(tmp_path: Path) -> None:
    RunJournal(tmp_path, PLAN)
    with (tmp_path / OWN_FOLDER / "journal.jsonl").open("a") as file:
        file.write(
            f'{{"case": "{A.key}", "pair": {{"log_ratios": [0.01], "base_seconds": 0.5, "head_seconds": 0.51, '
            '"base_peak": 1, "head_peak": 2, "base_graph_breaks": null, "head_graph_breaks": null, '
            '"observed": {"pressure": "0.1"}}}\n'
        )
    pair = Pair((0.01,), 0.5, 0.51, observed={"pressure": "0.1"})
    assert RunJournal(tmp_path, PLAN, resume=True).result(A).pairs == [pair]


def test_a_line_that_this_version_cannot_read_is_one_clear_error(tmp_path: Path) -> None:
    RunJournal(tmp_path, PLAN)
    with (tmp_path / OWN_FOLDER / "journal.jsonl").open("a") as file:
        file.write(f'{{"case": "{A.key}", "batch_size": "64"}}\n')
    with pytest.raises(
        ResumeError, match=r"journal\.jsonl is of another version of torchperf .*anew in --out"
    ):
        RunJournal(tmp_path, PLAN, resume=True)


def test_a_torn_last_line_is_dropped_and_the_journal_goes_on(tmp_path: Path) -> None:
    journal = RunJournal(tmp_path, PLAN)
    journal.add(JournalLine(A.key, OUTCOME))
    file = tmp_path / OWN_FOLDER / "journal.jsonl"
    with file.open("a") as torn:
        torn.write('{"case": "b", "outc')
    again = RunJournal(tmp_path, PLAN, resume=True)
    again.add(JournalLine(B.key, OUTCOME))
    once_more = RunJournal(tmp_path, PLAN, resume=True)
    assert [once_more.result(case).outcomes for case in (A, B)] == [[OUTCOME], [OUTCOME]]


def test_a_full_disk_is_told_with_how_to_continue(tmp_path: Path) -> None:
    """Simulated by a limit on file sizes."""
    journal = RunJournal(tmp_path, PLAN)
    journal.add(JournalLine(A.key, OUTCOME))
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(
        resource.RLIMIT_FSIZE, ((tmp_path / OWN_FOLDER / "journal.jsonl").stat().st_size + 9, before[1])
    )
    try:
        with pytest.raises(OutputDirectoryError, match=r"cannot be written .*continue with --resume"):
            journal.add(JournalLine(B.key, OUTCOME))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    again = RunJournal(tmp_path, PLAN, resume=True)
    assert [again.result(case).outcomes for case in (A, B)] == [[OUTCOME], []]


def test_records_of_an_earlier_run_are_not_overwritten(tmp_path: Path) -> None:
    RunJournal(tmp_path, PLAN)
    with pytest.raises(OutputDirectoryError, match="--resume"):
        RunJournal(tmp_path, PLAN)


def test_records_without_a_journal_are_not_overwritten_either(tmp_path: Path) -> None:
    (tmp_path / "somebody.json").write_text("[]")
    with pytest.raises(OutputDirectoryError, match="earlier run"):
        RunJournal(tmp_path, PLAN)


def test_each_run_has_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert newest_folder() == Path("torchperf-records")
    for name in ("torchperf-records", "torchperf-records-2", "torchperf-records-3"):
        assert free_folder() == Path(name)
        RunJournal(Path(name), PLAN)
    for age, name in enumerate(("torchperf-records-2", "torchperf-records-3", "torchperf-records")):
        os.utime(tmp_path / name / OWN_FOLDER / "journal.jsonl", (1000 - age, 1000 - age))
    assert newest_folder() == Path("torchperf-records-2")


def test_only_folders_of_our_own_naming_are_left_out_by_git(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for folder in (free_folder(), Path("mine")):
        RunJournal(folder, PLAN)
        (folder / "records.json").write_text("[]")
    subprocess.run(["git", "init", "--quiet"], check=True, timeout=60)
    listed = subprocess.run(
        ["git", "status", "--porcelain", "-uall"], check=True, capture_output=True, text=True, timeout=60
    )
    assert listed.stdout == "?? mine/records.json\n"


def test_a_folder_of_somebodys_records_is_not_free(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "torchperf-records").mkdir()
    assert free_folder() == Path("torchperf-records")
    (tmp_path / "torchperf-records/old.json").write_text("[]")
    assert free_folder() == Path("torchperf-records-2")


def test_another_plan_cannot_be_resumed(tmp_path: Path) -> None:
    RunJournal(tmp_path, PLAN)
    with pytest.raises(ResumeError, match=r"budget changed \(budget: 3.0 → 5\)"):
        RunJournal(tmp_path, {**PLAN, "budget": 5}, resume=True)


SETTING = RunSetting(
    "nightly",
    Settings("python", "cpu"),
    {},
    {"pytorch": Dependency(sha="abc", version="2.13.0"), "timm": Dependency(version="1.0.1")},
    "f1",
    identity={"head_sha": "a1", "run_attempt": 1},
)


@pytest.mark.parametrize(
    ("other", "changed"),
    [
        (replace(SETTING, identity={"head_sha": "b2", "run_attempt": 1}), r'commit: "a1" → "b2"'),
        (
            replace(SETTING, dependencies={**SETTING.dependencies, "timm": Dependency(version="1.0.2")}),
            r'version of timm: "1\.0\.1" → "1\.0\.2"',
        ),
    ],
)
def test_processes_of_another_commit_or_library_are_not_put_with_those_of_an_earlier_one(
    tmp_path: Path, other: RunSetting, changed: str
) -> None:
    RunJournal(tmp_path, RunPlan([A], SETTING, tmp_path).identity())
    next_attempt = replace(SETTING, identity={"head_sha": "a1", "run_attempt": 2})
    RunJournal(tmp_path, RunPlan([A], next_attempt, tmp_path).identity(), resume=True)
    with pytest.raises(ResumeError, match=changed):
        RunJournal(tmp_path, RunPlan([A], other, tmp_path).identity(), resume=True)


def test_two_runs_do_not_write_to_the_same_journal(tmp_path: Path) -> None:
    first, second = RunJournal(tmp_path, PLAN), RunJournal(tmp_path, PLAN, resume=True)
    with first.locked():
        with pytest.raises(ResumeError, match="in use by another run"), second.locked():
            pass
        with pytest.raises(
            ResumeError, match="in use by another run"
        ):  # nor read it, which cuts a torn line off
            RunJournal(tmp_path, PLAN, resume=True)
    with second.locked():
        second.add(JournalLine(A.key, OUTCOME))


def test_nothing_to_resume(tmp_path: Path) -> None:
    with pytest.raises(ResumeError, match="holds no run to resume"):
        RunJournal(tmp_path, PLAN, resume=True)


def test_a_directory_that_cannot_be_made_is_an_error_with_advice(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputDirectoryError, match="--out"):
        RunJournal(tmp_path / "file" / "out", PLAN)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_journal_that_is_a_link_is_neither_read_nor_written(tmp_path: Path) -> None:
    RunJournal(tmp_path, PLAN)
    file = tmp_path / OWN_FOLDER / "journal.jsonl"
    file.rename(tmp_path / "elsewhere")
    file.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OutputDirectoryError, match="it is a link, not a regular file"):
        RunJournal(tmp_path, PLAN, resume=True)
