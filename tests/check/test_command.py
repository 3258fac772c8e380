"""``torchperf check`` as people call it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from checking import check, judged, notes, record, run, verdicts, words
from made_points import noisy

from torchperf_ci import cli

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.usefixtures("here")


def test_a_regression_against_a_directory(
    slow: Path, history: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert check(slow, "--against", history) == 1
    assert words(tmp_path) == ["regressed"]
    assert "regressed" in capsys.readouterr().out


def test_a_run_on_a_busy_machine_is_told_of_before_all_else(history: Path, tmp_path: Path) -> None:
    said = "load 9.0 on 2 CPUs, 1.7 of them used by other work"
    status = {"name": "status", "benchmark_values": [1.0], "extra_info": {"disturbed": said}}
    new = [record("latency(ms)", 10.0, 40), {**record("status", 1.0, 40), "metric": status}]
    check(run(tmp_path, "busy", new), "--against", history)
    assert notes(tmp_path)[0] == (
        f"⚠ disturbed during the measurement on cuda (H100), run 140.1: 1 of 1 case, such as: {said}"
    )
    assert words(tmp_path) == ["unchanged", "new"]  # it is as comparable as any


def test_nothing_against_a_directory(fine: Path, history: Path, tmp_path: Path) -> None:
    assert check(fine, "--against", history, "--out", "other.json") == 0
    assert (tmp_path / "other.json").exists()


def test_a_regression_against_a_store(slow: Path, dsn: str, tmp_path: Path) -> None:
    assert check(slow, "--store", dsn) == 1
    assert words(tmp_path) == ["regressed"]


def test_a_rule_of_the_policy_that_nothing_obeys_is_told(fine: Path, history: Path, tmp_path: Path) -> None:
    rules = '"latency(s)": {direction: down, min_effect: 50%}, tokens: {direction: up}'
    (tmp_path / "torchperf.yml").write_text(f"version: 1\npolicy: {{{rules}}}\n")
    check(fine, "--against", history)
    said = "the policy has a rule for 'latency(s)', which nothing measures, so it has no effect"
    assert notes(tmp_path) == [f"{said}; did you mean 'latency(ms)'?"]


def test_only_what_torchperf_measures_can_be_repeated(fine: Path, history: Path, tmp_path: Path) -> None:
    (tmp_path / "torchperf.yml").write_text("version: 1\nsuites: {own: {workloads: [own.py]}}\n")
    check(fine, "--against", history)
    assert judged(tmp_path)["again"]
    other_tool = record("time(s)", 1.0, 40, benchmark={"name": "hyperfine"}, model={"name": "sleep 1"})
    check(run(tmp_path, "timed", [other_tool]), "--against", history)
    assert judged(tmp_path)["again"] is None


def test_the_head_is_named_by_its_own_commit_and_by_that_of_pytorch(history: Path, tmp_path: Path) -> None:
    other = {**record("latency(ms)", 10.0, 40), "head_sha": "ab" * 20}
    torch = {"dependencies": {"pytorch": {"repo": "pytorch/pytorch", "sha": "cd" * 20}}}
    check(run(tmp_path, "fresh", [{**other, **torch}]), "--against", history)
    assert judged(tmp_path)["head"].endswith("fresh (ababababab, PyTorch cdcdcdcdcd)")


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
        "1 element is not a valid record, and not judged"
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
        (
            ["empty"],
            "empty: holds no record (of a folder only *.json and *.json.gz are read), so there is nothing",
        ),
        (["nowhere"], "nowhere: there is no such file or directory"),
        (["fine", "--against", "nowhere"], "--against nowhere: there is no such directory or file"),
        (
            ["fine", "--against", "https://me:secret@api.example"],
            "--against: an upload API gives nothing back",
        ),
        (["strange", "--against", "fine"], "1 element is not a valid record; strange has no other"),
        (["fine"], "`torchperf ingest` makes one, or say where the past is with --against or --store"),
        (["fine", "--against", "fine/records.json"], "fine/records.json: is not an object"),
        (["--sensitivity", "--calibrate"], "are two questions"),
        (
            ["fine", "--against", "empty"],
            "*.json.gz are read): there is no past; give records, or `store`",
        ),
        (["fine", "--against", "strange"], "*.json.gz are read) (strange/package.json:1: $: "),
        (["--sensitivity", "--against", "empty"], "--against empty: holds no record"),
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


def test_zeros_of_a_latency_are_no_past(slow: Path, zeros: Path, tmp_path: Path) -> None:
    assert check(slow, "--against", zeros) == 0
    assert words(tmp_path) == ["new"]


def test_a_new_zero_of_a_latency_is_missing(history: Path, tmp_path: Path) -> None:
    assert check(run(tmp_path, "zero", [record("latency(ms)", 0, 31)]), "--against", history) == 0
    (verdict,) = verdicts(tmp_path)
    assert (verdict["verdict"], verdict["why"]) == ("missing", "the run has no number above zero")


@pytest.mark.parametrize(
    ("newest", "machine"),
    [(["latency(ms)", "tokens"], "H100"), (["tokens"], "H100"), (["tokens"], "MI300")],
)
def test_a_newest_run_without_a_number_is_told_where_an_earlier_one_is_judged(
    history: Path, tmp_path: Path, newest: list[str], machine: str
) -> None:
    there = {"runners": [{"name": "cuda", "type": machine}]}
    run(tmp_path / "new", "run-30", [record("latency(ms)", 10.03, 30), record("tokens", 0, 30, **there)])
    others = [record(metric, 0, 31, **there) for metric in newest if metric == "tokens"]
    run(tmp_path / "new", "run-31", [*others, *(record(one, 0, 31) for one in newest if one != "tokens")])
    run(tmp_path / "new", "shard", [record("other(s)", 5, 32)])
    assert check(tmp_path / "new", "--against", history) == 0
    assert words(tmp_path) == ["unchanged", "new", "new"]
    assert notes(tmp_path)[-1] == "1 series has no number in the newest run, so an earlier one is judged"


def test_a_store_beside_another_history_is_said_not_to_be_read(
    fine: Path, history: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert check(fine, "--against", history, "--store", "clickhouse://me:secret@host/db") == 0
    said = capsys.readouterr().err
    assert "--store is not read: --against names another history" in said


@pytest.mark.parametrize("change", [0.8, 1.2])
def test_a_target_gives_no_direction(tmp_path: Path, change: float) -> None:
    """The past may have been better than its target all the time."""
    for day, value in enumerate([*noisy(10, 20), *noisy(10 * change, 3)]):
        aimed = record("quality", value, day)
        aimed["metric"]["target_value"] = 11.0
        run(tmp_path / ("past" if day < 20 else "now"), f"run-{day}", [aimed])
    assert check(tmp_path / "now", "--against", tmp_path / "past") == 0
    (verdict,) = verdicts(tmp_path)
    assert verdict["why"].startswith("changed, but nothing says which way is better")


def test_zeros_of_what_nobody_knows_are_amounts(tmp_path: Path) -> None:
    for day in range(20):
        run(tmp_path / "past", f"run-{day}", [record("score", 0, day)])
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


def test_a_machine_without_a_past_is_told_also_beside_one_that_has_it(history: Path, tmp_path: Path) -> None:
    """Such as one whose driver now calls it something else."""
    renamed = [{"name": "cuda", "type": "H100 80GB"}]
    run(tmp_path / "new", "h100", [record("latency(ms)", 10.03, None, runners=renamed)])
    run(tmp_path / "new", "same", [record("latency(ms)", 10.03, None)])
    check(tmp_path / "new", "--against", history)
    assert sorted(words(tmp_path)) == ["new", "unchanged"]
    assert notes(tmp_path) == ["the history has no machine H100 80GB, only H100"]


def test_new_records_of_several_machines_are_told(history: Path, tmp_path: Path) -> None:
    other = [{"name": "cuda", "type": "H100", "extra_info": {"driver": "560", "fingerprint_of": "driver"}}]
    for day in range(30, 33):
        run(tmp_path / "now", f"a-{day}", [record("latency(ms)", 15.0, day)])
        run(tmp_path / "now", f"b-{day}", [record("latency(ms)", 9.0, day + 3, runners=other)])
    assert check(tmp_path / "now", "--against", history) == 0
    assert words(tmp_path) == ["not-comparable"]
    note, _ = notes(tmp_path)
    assert note.startswith(
        "1 series has new points of several machines or batch sizes, which differ in driver;"
    )
    assert "check each machine's records by itself" in note


def test_where_most_latencies_look_worse_the_machine_is_suspected(tmp_path: Path) -> None:
    models = [{"name": name, "backend": "eager"} for name in "abcd"]
    for day in range(15):
        value, folder = (10.0 + day % 3 / 100, "past") if day < 12 else (12.0, "now")
        records = [record("latency(ms)", value, day, model=model) for model in models]
        run(tmp_path / folder, str(day), records)
    assert check(tmp_path / "now", "--against", tmp_path / "past") == 1
    (note,) = notes(tmp_path)
    assert note.startswith("4 of 4 cases on H100 look slower at once, by +19.9% in the median: ")


@pytest.mark.parametrize("tonight", [[1.0, 10.0], [10.0]])
def test_several_numbers_of_one_run_are_told_though_one_is_missing(
    tonight: list[float], tmp_path: Path
) -> None:
    """Two cases of one name: without the faster one, the median is almost twice as slow."""
    for day in range(12):
        run(tmp_path / "past", f"run-{day}", [record("latency(ms)", value, day) for value in (1.0, 10.0)])
    now = run(tmp_path, "now", [record("latency(ms)", value, 12) for value in tonight])
    check(now, "--against", tmp_path / "past")
    assert words(tmp_path) == ["unchanged" if len(tonight) == 2 else "regressed"]
    (note,) = notes(tmp_path)
    assert note.startswith("1 series has several numbers of one run, whose median is judged")


def test_a_new_machine_is_told_with_the_commits_between_which_nothing_is_proven(
    history: Path, tmp_path: Path
) -> None:
    """They begin before the newest runs there, whose change no other run could confirm."""
    before = history / "run-24/records.json"
    before.write_text(before.read_text().replace(f"{24:040x}", "b" * 40))
    other = [{"name": "cuda", "type": "H100", "extra_info": {"driver": "560", "fingerprint_of": "driver"}}]
    now = run(tmp_path, "now", [record("latency(ms)", 15.0, 30, runners=other, head_sha="a" * 40)])
    assert check(now, "--against", history) == 0
    (note,) = notes(tmp_path)
    assert "what changed from bbbbbbbbbb to aaaaaaaaaa: measure both" in note
    run(tmp_path / "history", "run-30", [record("latency(ms)", 15.0, 30, runners=other)])
    later = run(tmp_path, "later", [record("latency(ms)", 15.0, 31, runners=other)])
    assert check(later, "--against", history) == 0
    assert notes(tmp_path) == []


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
