"""``torchperf check`` as people call it: against a directory, a store and a baseline."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from made_points import START, noisy

from torchperf_ci import cli
from torchperf_ci.places import open_place
from torchperf_ci.store.ingest import ingest_place
from torchperf_ci.store.migrations import open_store

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

FACTS = {"driver": "550", "fingerprint": "f00", "fingerprint_of": "driver"}
SLOW = 1.2


def record(metric: str, value: float, day: int | None, **changes: Any) -> dict[str, Any]:
    """A record of a day's run; without a day one that comes fresh from a measurement."""
    ids = {
        "timestamp": START + (day or 0) * 86_400,
        "repo": "octo/perf",
        "head_branch": "refs/heads/main",
        "head_sha": f"{day or 0:040x}",
        "workflow_id": 100 + (day or 0),
        "run_attempt": 1,
        "job_id": 1,
    }
    return {
        **({} if day is None else ids),
        "runners": [{"name": "cuda", "type": "H100", "extra_info": FACTS}],
        "benchmark": {"name": "nightly", "mode": "inference", "dtype": "bf16"},
        "model": {"name": "resnet", "backend": "eager"},
        "metric": {"name": metric, "benchmark_values": [value, value * 1.001, value * 1.002]},
        **changes,
    }


def run(folder: Path, name: str, records: Iterable[dict[str, Any]]) -> Path:
    (folder / name).mkdir(parents=True)
    (folder / name / "records.json").write_text(json.dumps(list(records)))
    return folder / name


@pytest.fixture
def history(tmp_path: Path) -> Path:
    """Thirty nights of one case."""
    for day, value in enumerate(noisy(10, 30)):
        run(tmp_path / "history", f"run-{day}", [record("latency(ms)", value, day)])
    return tmp_path / "history"


@pytest.fixture
def dsn(history: Path, tmp_path: Path) -> str:
    """The same in a store."""
    with open_store(f"chdb://{tmp_path}/store") as store:
        ingest_place(store, open_place(str(history)))
    return f"chdb://{tmp_path}/store"


@pytest.fixture
def slow(tmp_path: Path) -> Path:
    """Three fresh runs that are slower."""
    for number in range(3):
        run(tmp_path / "slow", f"run-{number}", [record("latency(ms)", 10 * SLOW + number / 100, None)])
    return tmp_path / "slow"


@pytest.fixture
def fine(tmp_path: Path) -> Path:
    """A fresh run like those before."""
    return run(tmp_path, "fine", [record("latency(ms)", 10.03, None)])


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somewhere without a configuration, and in no job."""
    monkeypatch.chdir(tmp_path)
    for name in ("GITHUB_ACTIONS", "GITHUB_BASE_REF", "GITHUB_REF", "GITHUB_ACTOR"):
        monkeypatch.delenv(name, raising=False)


def check(*argv: object) -> int:
    return cli.main(["check", *map(str, argv)])


def judged(tmp_path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((tmp_path / "verdicts.json").read_text())
    return found


def verdicts(tmp_path: Path) -> list[dict[str, Any]]:
    return list(judged(tmp_path)["verdicts"])


def words(tmp_path: Path) -> list[str]:
    return [verdict["verdict"] for verdict in verdicts(tmp_path)]


def notes(tmp_path: Path) -> list[str]:
    return list(judged(tmp_path)["notes"])


def test_a_regression_against_a_directory(
    slow: Path, history: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert check(slow, "--against", history) == 1
    assert words(tmp_path) == ["regressed"]
    assert "regressed" in capsys.readouterr().out


def test_a_run_on_a_busy_machine_is_told_of_before_all_else(history: Path, tmp_path: Path) -> None:
    said = "load 9.0 on 2 CPUs, 1.7 of them taken by other work"
    status = {"name": "status", "benchmark_values": [1.0], "extra_info": {"disturbed": said}}
    new = [record("latency(ms)", 10.0, 40), {**record("status", 1.0, 40), "metric": status}]
    check(run(tmp_path, "busy", new), "--against", history)
    assert notes(tmp_path)[0] == (
        f"⚠ disturbed while this was measured on cuda (H100), run 140.1: 1 of 1 case, such as: {said}"
    )
    assert words(tmp_path) == ["unchanged", "new"]  # it is as comparable as any


def test_nothing_against_a_directory(fine: Path, history: Path, tmp_path: Path) -> None:
    assert check(fine, "--against", history, "--out", "other.json") == 0
    assert (tmp_path / "other.json").exists()


def test_a_regression_against_a_store(slow: Path, dsn: str, tmp_path: Path) -> None:
    assert check(slow, "--store", dsn) == 1
    assert words(tmp_path) == ["regressed"]


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
    place: str, history: Path, slow: Path, remote: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
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
    for day, folder in enumerate([first, *history.iterdir(), *slow.iterdir()]):
        job = ("--workflow-id", str(1000 + day), "--job-id", "1")
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
        "nothing is judged: the records are kept nowhere that can be read;"
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
        uploaded = run(tmp_path, f"uploaded-{day}", [{**record("x", 1, day), **kept}])
        assert cli.main(["ingest", str(uploaded), "--store", dsn]) == 0
    assert check(slow, "--store", dsn) == 1
    (verdict,) = json.loads((tmp_path / "verdicts.json").read_text())["verdicts"]
    assert verdict["evidence"]["history"] == 30


def test_an_old_run_is_judged_as_it_was_then(dsn: str, tmp_path: Path) -> None:
    for day in range(30, 40):
        later = run(tmp_path, f"later-{day}", [record("latency(ms)", 10 * SLOW + day / 100, day)])
        cli.main(["ingest", str(later), "--store", dsn])
    old = run(tmp_path, "old", [record("latency(ms)", 10.02, 29)])
    assert check(old, "--store", dsn) == 0
    (verdict,) = json.loads((tmp_path / "verdicts.json").read_text())["verdicts"]
    assert (verdict["verdict"], verdict["evidence"]["history"]) == ("unchanged", 29)


def test_a_past_of_something_else_is_told(slow: Path, tmp_path: Path) -> None:
    other = record("latency(ms)", 1.0, 1, benchmark={"name": "another"})
    assert check(slow, "--against", run(tmp_path, "others", [other])) == 0
    judged = json.loads((tmp_path / "verdicts.json").read_text())
    assert [note[:41] for note in judged["notes"]] == ["the past has nothing of what was measured"]


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


def test_warnings_only(slow: Path, history: Path, tmp_path: Path) -> None:
    assert check(slow, "--against", history, "--on-failure", "warn") == 0
    assert words(tmp_path) == ["regressed"]


def test_json_is_the_file(
    slow: Path, history: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert check(slow, "--against", history, "--json") == 1
    assert json.loads(capsys.readouterr().out) == json.loads((tmp_path / "verdicts.json").read_text())


def test_refused_records_are_told_and_the_rest_judged(
    fine: Path, slow: Path, history: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for folder in (fine, slow / "run-0"):
        (folder / "bad.json").write_text('{"no": "metric"}')
    assert check(fine, "--against", history) == 3
    assert "bad.json:1: $: metric is missing" in capsys.readouterr().err
    assert words(tmp_path) == ["unchanged"]
    assert json.loads((tmp_path / "verdicts.json").read_text())["notes"] == [
        "1 element is no good record, and not judged"
    ]
    assert check(slow, "--against", history) == 1


def test_a_job_that_delivered_nothing_is_told_and_spoils_nothing(
    history: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run(tmp_path / "night", "torchperf-records-h100-core-1-of-2", [record("latency(ms)", 10.03, None)])
    (tmp_path / "night/torchperf-records-spr-core").mkdir()
    (tmp_path / "night/torchperf-records-spr-core/log.json").write_text("[]")
    argv = (tmp_path / "night", "--against", history)
    monkeypatch.setenv("TORCHPERF_EXPECT", "h100-core-1-of-2\nh100-core-2-of-2\nspr-core\n")
    assert check(*argv) == 0
    assert words(tmp_path) == ["unchanged"]
    absent = ["h100-core-2-of-2: nothing was measured", "spr-core: nothing was measured"]
    assert json.loads((tmp_path / "verdicts.json").read_text())["notes"] == absent
    assert absent[0] in capsys.readouterr().out
    assert check(*argv, "--expect", "h100-core-1-of-2") == 0
    assert json.loads((tmp_path / "verdicts.json").read_text())["notes"] == []


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        ([], "say which records are new: torchperf check DIR"),
        (["empty"], "empty: holds no record, so there is nothing to do"),
        (["nowhere"], "nowhere: there is no such file or directory"),
        (["fine", "--against", "nowhere"], "--against nowhere: there is no such directory or file"),
        (
            ["fine", "--against", "https://api.example"],
            "https://api.example: an upload API gives nothing back",
        ),
        (["strange", "--against", "fine"], "1 element is no good record; strange has no other"),
        (["fine"], "there is no store; `torchperf ingest` makes one"),
        (["fine", "--against", "fine/records.json"], "fine/records.json: $"),
        (["--sensitivity", "--calibrate"], "are two questions"),
        (["fine", "--against", "empty"], "--against empty: holds no record, so there is no past"),
        (["fine", "--against", "strange"], "--against strange: holds no record (strange/package.json:1: $: "),
        (["--sensitivity", "--against", "empty"], "--against empty: holds no record, so there is no past"),
        (["--calibrate", "--against", "fine"], "the past has 1 run, and calibrating takes at least 10"),
    ],
)
@pytest.mark.usefixtures("fine")
def test_what_cannot_be_done_is_told(
    argv: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "strange").mkdir()
    (tmp_path / "strange" / "package.json").write_text('{"name": "perf"}')
    assert check(*argv) == (3 if argv[:1] == ["strange"] else 2)
    assert message in capsys.readouterr().err
    assert not (tmp_path / "verdicts.json").exists()


def test_sensitivity_of_all_that_the_store_has(dsn: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert check("--sensitivity", "--store", dsn, "--json") == 0
    shown = json.loads(capsys.readouterr().out)
    (seen,) = shown["series"]
    assert seen["history"] == 30
    assert seen["noise"] == pytest.approx(0.01, rel=0.5)
    assert 0.01 < seen["detectable"] < 0.06
    assert [suite["series"] for suite in shown["suites"]] == [1]


def test_what_sees_least_is_told_beside_the_middle_and_comes_first_in_the_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    models = {"calm": 1, "usual": 3, "wild": 6}  # how many times as far runs differ
    for day, value in enumerate(noisy(10, 30)):
        of_day = [
            record("latency(ms)", 10 + (value - 10) * times, day, model={"name": name, "backend": "eager"})
            for name, times in models.items()
        ]
        run(tmp_path / "history", f"run-{day}", of_day)
    assert check("--sensitivity", "--against", tmp_path / "history", "--json") == 0
    shown = json.loads(capsys.readouterr().out)
    calm, usual, wild = sorted(seen["detectable"] for seen in shown["series"])
    (suite,) = shown["suites"]
    assert (suite["detectable"], suite["worst"]) == (usual, wild)
    assert calm < usual < wild
    assert check("--sensitivity", "--against", tmp_path / "history") == 0
    table = capsys.readouterr().out
    assert (
        table.index("wild latency(ms)") < table.index("usual latency(ms)") < table.index("calm latency(ms)")
    )


def test_sensitivity_as_a_table(fine: Path, dsn: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert check(fine, "--sensitivity", "--store", dsn) == 0
    shown = capsys.readouterr().out
    assert "see what matters" in shown
    assert "resnet latency(ms) (inference bf16 eager cuda)" in shown


def test_calibration_counts_the_alarms_of_the_past(history: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert check("--calibrate", "--against", history, "--json") == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["replayed"]["runs"] == 21
    assert shown["shuffled"]["proven"] <= 2
    assert check("--calibrate", "--against", history) == 0
    assert "a month of 30 nights" in capsys.readouterr().out


@pytest.fixture
def zeros(tmp_path: Path) -> Path:
    """Twenty nights of a harness that reports failure as zero."""
    for day in range(20):
        run(tmp_path / "zeros", f"run-{day}", [record("latency(ms)", 0, day)])
    return tmp_path / "zeros"


def test_zeros_of_a_latency_are_no_past(slow: Path, zeros: Path, tmp_path: Path) -> None:
    assert check(slow, "--against", zeros) == 0
    assert words(tmp_path) == ["new"]


def test_a_new_zero_of_a_latency_is_missing(history: Path, tmp_path: Path) -> None:
    assert check(run(tmp_path, "zero", [record("latency(ms)", 0, 31)]), "--against", history) == 0
    (verdict,) = verdicts(tmp_path)
    assert (verdict["verdict"], verdict["why"]) == ("missing", "the run has no number above zero")


def test_zeros_of_what_nobody_knows_are_amounts(tmp_path: Path) -> None:
    for day in range(20):
        run(tmp_path / "past", f"run-{day}", [record("score", 0, day, target_value=1)])
    for day in range(20, 23):
        run(tmp_path / "now", f"run-{day}", [record("score", 60, day)])
    (tmp_path / "torchperf.yml").write_text("version: 1\npolicy: {score: {direction: down}}\n")
    assert check(tmp_path / "now", "--against", tmp_path / "past") == 1


def test_zeros_of_a_baseline_that_is_older_are_no_past(slow: Path, zeros: Path, tmp_path: Path) -> None:
    run(tmp_path / "rest", "run-0", [record("latency(ms)", 10.0, 1)])
    cli.main(["baseline", "update", "--reason", "x", str(tmp_path / "rest")])
    old = json.loads((tmp_path / "baseline.json").read_text())
    old["baselines"][0]["series"][0]["values"] = [0.0] * 9
    (tmp_path / "baseline.json").write_text(json.dumps(old))
    assert check(slow, "--against", "baseline.json") == 0
    assert words(tmp_path) == ["new"]


def test_new_records_of_several_machines_are_told(history: Path, tmp_path: Path) -> None:
    other = [{"name": "cuda", "type": "H100", "extra_info": {"driver": "560", "fingerprint_of": "driver"}}]
    for day in range(30, 33):
        run(tmp_path / "now", f"a-{day}", [record("latency(ms)", 15.0, day)])
        run(tmp_path / "now", f"b-{day}", [record("latency(ms)", 9.0, day + 3, runners=other)])
    assert check(tmp_path / "now", "--against", history) == 0
    assert words(tmp_path) == ["not-comparable"]
    (note,) = notes(tmp_path)
    assert note.startswith(
        "1 series have new points of several machines or batch sizes, which differ in driver;"
    )
    assert "check each machine's records by itself" in note


def test_what_is_refused_in_the_past_is_told(
    fine: Path, history: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (history / "bad.json").write_text('{"no": "metric"}')
    assert check(fine, "--against", history) == 0
    said = f"1 element of {history} is no good record, and left out of the past"
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
        "nothing is compared: by their ids or their numbers, all runs of the past are the new ones themselves"
    ]


def test_of_a_directory_an_old_run_is_judged_as_it_was_then(history: Path, tmp_path: Path) -> None:
    for day in range(30, 40):
        run(history, f"run-{day}", [record("latency(ms)", 10 * SLOW + day / 100, day)])
    old = run(tmp_path, "old", [record("latency(ms)", 10.02, 29, workflow_id=7)])
    assert check(old, "--against", history) == 0
    (verdict,) = verdicts(tmp_path)
    assert (verdict["verdict"], verdict["evidence"]["history"]) == ("unchanged", 30)
    first = run(tmp_path, "first", [record("latency(ms)", 10.02, -1)])
    assert check(first, "--against", history) == 0
    assert notes(tmp_path) == ["all that the past has is newer than the new records"]


def test_without_times_everything_in_a_directory_is_the_past(history: Path, tmp_path: Path) -> None:
    for number in range(3):
        run(history, f"later-{number}", [record("latency(ms)", 10.0 + number / 10, 50 + number, timestamp=0)])
    assert check(run(tmp_path, "now", [record("latency(ms)", 10.02, 40)]), "--against", history) == 0
    (verdict,) = verdicts(tmp_path)
    assert verdict["evidence"]["history"] == 33


def test_a_second_check_does_not_take_the_verdicts_of_the_first_for_records(
    fine: Path, history: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(fine)
    assert [check(".", "--against", history) for _ in range(2)] == [0, 0]


def test_the_repetitions_that_failed_are_told(tmp_path: Path) -> None:
    def status(day: int, *values: float) -> dict[str, Any]:
        return {**record("status", 1, day), "metric": {"name": "status", "benchmark_values": list(values)}}

    run(tmp_path / "past", "run", [status(1, 1, 1, 1)])
    assert check(run(tmp_path, "now", [status(2, 1, 0, 1)]), "--against", tmp_path / "past") == 1
    (verdict,) = verdicts(tmp_path)
    assert (verdict["verdict"], verdict["old"], verdict["new"]) == ("broken", 1, 0)
    assert verdict["why"] == "failed in 1 of 3 repetitions"
