"""The past that new records are judged by: a branch, a directory or a store, up to the new records."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from checking import SLOW, check, judged, notes, record, run, verdicts, words
from made_points import noisy

from torchperf_ci import cli
from torchperf_ci.places import open_place
from torchperf_ci.places.branch import BranchPlace
from torchperf_ci.places.place import PlaceAccess

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.usefixtures("here")


def test_what_was_uploaded_to_a_branch_is_a_past(
    slow: Path, history: Path, remote: Path, tmp_path: Path, temporary: Path
) -> None:
    place = open_place(f"branch:benchmarks@{remote}")
    place.put_all({f"v3/{path.parent.name}.json": path.read_bytes() for path in history.rglob("*.json")})
    assert check(slow, "--against", f"branch:benchmarks@{remote}") == 1
    assert words(tmp_path) == ["regressed"]
    assert judged(tmp_path)["base"] == f"branch:benchmarks@{remote}"
    assert list(temporary.iterdir()) == []


@pytest.mark.parametrize("place", ["branch", "directory", "store", "config"])
def test_where_uploads_go_is_the_past_from_the_first_day_on(
    place: str, slow: Path, remote: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the root action, which is told nothing else; the new run is there already."""
    to = {"branch": f"branch:past@{remote}", "store": f"chdb://{tmp_path}/kept"}.get(
        place, f"{tmp_path}/kept"
    )
    monkeypatch.setenv("TORCHPERF_UPLOAD_TO", "" if place == "config" else to)
    if place == "config":
        (tmp_path / "torchperf.yml").write_text(f'version: 1\nupload: {{to: "{to}"}}\n')
    first = run(tmp_path, "first", [record("latency(ms)", 10, -1)])
    if place != "store":  # it is made by the upload
        assert check(first) == 0
        assert notes(tmp_path) == [f"{to} holds no record yet, so there is no past"]
    ids = ("--repo-name", "octo/perf", "--head-branch", "main", "--head-sha", "0" * 40)
    past = run(tmp_path, "past", [record("latency(ms)", ms, day) for day, ms in enumerate(noisy(10, 30))])
    for number, folder in enumerate([first, past, *slow.iterdir()]):
        job = ("--workflow-id", str(1000 + number), "--job-id", "1")
        assert cli.main(["upload", str(folder), "--to", to, *ids, *job]) == 0
        if folder == first:
            assert check(first) == 0
            assert words(tmp_path) == ["new"]
    assert check(slow) == 1
    (verdict,) = verdicts(tmp_path)
    assert verdict["verdict"] == "regressed"
    assert judged(tmp_path)["base"] == to


@pytest.mark.parametrize("to", ["", "https://api.example/upload"])
def test_what_was_kept_where_nothing_can_be_read_is_not_judged_unless_a_past_is_named(
    to: str,
    slow: Path,
    history: Path,
    dsn: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("TORCHPERF_UPLOAD_TO", to)
    assert check(slow) == 0
    assert capsys.readouterr().err.startswith(
        "nothing is judged: the records are stored nowhere that can be read;"
    )
    assert not (tmp_path / "verdicts.json").exists()
    assert check(slow, "--against", history) == 1
    assert check(slow, "--store", dsn) == 1


def test_a_branch_that_is_not_there_yet_is_no_past_and_a_note_says_so(
    slow: Path, remote: Path, tmp_path: Path
) -> None:
    assert check(slow, "--against", f"branch:benchmarks@{remote}") == 0
    assert words(tmp_path) == ["new"]
    assert f"branch:benchmarks@{remote} holds no record yet, so there is no past" in notes(tmp_path)


def test_a_branch_whose_records_are_all_in_packs_that_are_not_read_is_not_said_to_be_empty(
    remote: Path, tmp_path: Path
) -> None:
    place = BranchPlace.at(f"branch:benchmarks@{remote}", PlaceAccess())
    place.put("v3/a.json", json.dumps(record("latency(ms)", 10, 1)).encode())
    place.pack("2099-01")
    assert check(run(tmp_path, "late", [record("latency(ms)", 10, 300)]), "--against", place.name) == 0
    assert words(tmp_path) == ["new"]
    (note,) = notes(tmp_path)
    assert "packs of months before 20" in note


def test_what_is_no_good_record_on_a_branch_is_left_out_and_counted(
    fine: Path, history: Path, remote: Path, tmp_path: Path
) -> None:
    place = open_place(f"branch:benchmarks@{remote}")
    good = {f"v3/{path.parent.name}.json": path.read_bytes() for path in history.rglob("*.json")}
    place.put_all({**good, "v3/bad.json": b"[1]"})
    assert check(fine, "--against", f"branch:benchmarks@{remote}") == 0
    assert words(tmp_path) == ["unchanged"]
    (note,) = notes(tmp_path)
    assert note.startswith("1 element of branch:benchmarks@")


def test_the_store_is_the_configurations(slow: Path, dsn: str, tmp_path: Path) -> None:
    (tmp_path / "torchperf.yml").write_text(
        f'version: 1\nstore: "{dsn}"\npolicy: {{"latency(ms)": {{min_effect: 60%}}}}\n'
    )
    assert check(slow) == 0
    assert words(tmp_path) == ["unchanged"]
    (tmp_path / "strict.yml").write_text(f'version: 1\nstore: "{dsn}"\n')
    assert check(slow, "--policy", "strict.yml") == 1


def test_what_was_uploaded_before_it_is_checked_is_not_its_own_past(
    slow: Path, dsn: str, tmp_path: Path
) -> None:
    for number, day in enumerate((30, 31, 32)):
        (kept,) = json.loads((slow / f"run-{number}/records.json").read_text())
        run(tmp_path / "uploaded", f"run-{day}", [{**record("x", 1, day), **kept}])
    assert cli.main(["ingest", str(tmp_path / "uploaded"), "--store", dsn]) == 0
    assert check(slow, "--store", dsn) == 1
    (verdict,) = json.loads((tmp_path / "verdicts.json").read_text())["verdicts"]
    assert verdict["evidence"]["history"] == 30


MUCH_NEWER = (
    "the past has results that are a day newer and left out: the new run is old, or a clock was wrong"
)


def test_an_old_run_is_judged_as_it_was_then(dsn: str, tmp_path: Path) -> None:
    for day in range(30, 40):
        run(tmp_path / "later", f"run-{day}", [record("latency(ms)", 10 * SLOW + day / 100, day)])
    assert cli.main(["ingest", str(tmp_path / "later"), "--store", dsn]) == 0
    old = run(tmp_path, "old", [record("latency(ms)", 10.02, 29)])
    assert check(old, "--store", dsn) == 0
    (verdict,) = json.loads((tmp_path / "verdicts.json").read_text())["verdicts"]
    assert (verdict["verdict"], verdict["evidence"]["history"]) == ("unchanged", 29)
    assert notes(tmp_path) == [MUCH_NEWER]
    first = run(tmp_path, "first", [record("latency(ms)", 10.02, -1)])
    assert check(first, "--store", dsn) == 0
    assert notes(tmp_path) == ["all that the past has is newer than the new records"]


def test_runs_whose_times_are_in_milliseconds_have_a_past(tmp_path: Path) -> None:
    def measured(day: int) -> dict[str, object]:
        seconds = record("latency(ms)", 10 + day / 100, day)
        return {**seconds, "timestamp": seconds["timestamp"] * 1000}

    store = f"chdb://{tmp_path}/store"
    for day in range(9):
        run(tmp_path / "past", f"run-{day}", [measured(day)])
    assert cli.main(["ingest", str(tmp_path / "past"), "--store", store]) == 0
    assert check(run(tmp_path, "now", [measured(9)]), "--store", store) == 0
    (verdict,) = verdicts(tmp_path)
    assert (verdict["verdict"], verdict["evidence"]["history"]) == ("unchanged", 9)


def test_a_past_of_something_else_is_told(history: Path, dsn: str, tmp_path: Path) -> None:
    other = run(tmp_path, "others", [record("latency(ms)", 1.0, 40, benchmark={"name": "another"})])
    for past in (["--against", history], ["--store", dsn]):
        assert check(other, *past) == 0
        assert [note.partition(";")[0] for note in notes(tmp_path)] == [
            "the history has no benchmark another, only nightly"
        ]


def test_a_branch_that_is_not_there_is_refused(
    slow: Path, dsn: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for branch, hint in (("release/2.13", "known: main"), ("mian", "did you mean main?")):
        assert check(slow, "--store", dsn, "--branch", branch) == 2
        assert f"unknown --branch '{branch}': {hint}" in capsys.readouterr().err
    assert check(slow, "--store", dsn, "--branch", "refs/heads/main") == 1


def test_of_a_directory_one_branch_may_be_the_past(slow: Path, history: Path, tmp_path: Path) -> None:
    for day in range(30, 40):
        run(
            history,
            f"run-{day}",
            [record("latency(ms)", 12 + day / 1000, day, head_branch="refs/heads/slow")],
        )
    assert check(slow, "--against", history, "--branch", "main") == 1
    assert check(slow, "--against", history, "--branch", "refs/heads/slow") == 0
    assert words(tmp_path) == ["unchanged"]


def test_in_a_pull_request_its_base_is_the_past(
    slow: Path, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_REF", "refs/pull/1/merge")
    monkeypatch.setenv("GITHUB_BASE_REF", "main")
    assert check(slow, "--store", dsn) == 1


def test_what_is_refused_in_the_past_is_told(
    fine: Path, history: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (history / "bad.json").write_text('{"no": "metric"}')
    assert check(fine, "--against", history) == 0
    said = f"1 element of {history} is not a valid record, and left out of the past"
    assert notes(tmp_path) == [said]
    assert "bad.json:1: $: metric is missing" in capsys.readouterr().err
    assert check("--sensitivity", "--against", history) == 0
    told = capsys.readouterr().err
    assert said in told
    assert "bad.json:1: $: metric is missing" in told


def test_a_past_that_is_all_of_the_new_run_is_told(tmp_path: Path) -> None:
    for number in range(9):
        run(tmp_path / "past", f"run-{number}", [record("latency(ms)", 10 + number / 10, 30)])
    now = run(tmp_path, "now", [record("latency(ms)", 20, 30)])
    assert check(now, "--against", tmp_path / "past") == 0
    assert words(tmp_path) == ["new"]
    assert notes(tmp_path) == [
        "nothing is compared: the history has no other runs than the new ones themselves"
    ]
    run(tmp_path / "past", "earlier", [record("peak_memory(MB)", 10, 29)])
    assert check(now, "--against", tmp_path / "past") == 0
    assert notes(tmp_path) == []


def test_of_a_directory_an_old_run_is_judged_as_it_was_then(history: Path, tmp_path: Path) -> None:
    for day in range(30, 40):
        run(history, f"run-{day}", [record("latency(ms)", 10 * SLOW + day / 100, day)])
    old = run(tmp_path, "old", [record("latency(ms)", 10.02, 29, workflow_id=7)])
    assert check(old, "--against", history) == 0
    (verdict,) = verdicts(tmp_path)
    assert (verdict["verdict"], verdict["evidence"]["history"]) == ("unchanged", 30)
    assert notes(tmp_path) == [MUCH_NEWER]
    first = run(tmp_path, "first", [record("latency(ms)", 10.02, -1)])
    assert check(first, "--against", history) == 0
    assert notes(tmp_path) == ["all that the past has is newer than the new records"]


def test_without_times_everything_in_a_directory_is_the_past(history: Path, tmp_path: Path) -> None:
    for number in range(3):
        run(history, f"later-{number}", [record("latency(ms)", 10.0 + number / 10, 50 + number, timestamp=0)])
    assert check(run(tmp_path, "now", [record("latency(ms)", 10.02, 40)]), "--against", history) == 0
    (verdict,) = verdicts(tmp_path)
    assert verdict["evidence"]["history"] == 33


@pytest.mark.parametrize("of", ["directory", "store"])
def test_what_is_of_the_future_is_no_past_of_a_run_of_now(
    of: str, history: Path, slow: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """As the newest run for good it would keep any regression from being proven."""
    wrong = run(history, "wrong-clock", [record("latency(ms)", 10.0, 36_500)])
    against = ("--against", history)
    if of == "store":
        against = ("--store", request.getfixturevalue("dsn"))
        assert cli.main(["ingest", str(wrong), *against]) == 0
    assert check(slow, *against) == 1
    (verdict,) = verdicts(tmp_path)
    assert verdict["evidence"]["last_old"]["commit"] == f"{29:040x}"
    assert notes(tmp_path) == [MUCH_NEWER]
