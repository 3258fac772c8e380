"""The command from its arguments to what it prints, on files, records and in the real engine."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest
from made_points import DAY, START, noisy

from torchperf_ci.cli import main
from torchperf_ci.places import open_place
from torchperf_ci.store.ingest import ingest_place
from torchperf_ci.store.migrations import open_store

if TYPE_CHECKING:
    from pathlib import Path

LATENCY = [*noisy(10, 30), *noisy(11, 30, seed=1), *noisy(10, 30, seed=2)]
MEMORY = noisy(500, 90)


def record(model: str, metric: str, value: float, day: int, branch: str = "main") -> dict[str, Any]:
    return {
        "timestamp": START + day * DAY,
        "repo": "octo/perf",
        "head_branch": f"refs/heads/{branch}",
        "head_sha": f"{day:040x}",
        "workflow_id": 1000 + day,
        "run_attempt": 1,
        "job_id": 2000 + day,
        "runners": [{"name": "cuda", "type": "H100"}],
        "dependencies": {"pytorch": {"sha": f"{day + 500:040x}", "extra_info": {}}},
        "benchmark": {"name": "nightly", "mode": "inference", "dtype": "bf16"},
        "model": {"name": model, "backend": "eager"},
        "metric": {"name": metric, "benchmark_values": [value]},
    }


@pytest.fixture
def records(tmp_path: Path) -> Path:
    """Ninety nights in which the latency of one of two series regressed and recovered."""
    folder = tmp_path / "records"
    folder.mkdir()
    for day, values in enumerate(zip(LATENCY, MEMORY, strict=True)):
        metrics = zip(("latency(ms)", "peak_memory(MiB)"), values, strict=True)
        found = [record("resnet | *50*", metric, value, day) for metric, value in metrics]
        (folder / f"run-{day}.json").write_text(json.dumps(found))
    return folder


def write_csv(path: Path, values: list[float]) -> Path:
    path.write_text("index,value\n" + "".join(f"b{i},{value}\n" for i, value in enumerate(values)))
    return path


def printed_json(capsys: pytest.CaptureFixture[str], *arguments: object) -> Any:
    assert main(["history", *map(str, arguments), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_a_file_of_values_is_segmented(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    changed, steady = write_csv(tmp_path / "a.csv", LATENCY), write_csv(tmp_path / "b.csv", MEMORY)
    found = printed_json(capsys, "--csv", changed, steady)
    assert [(one["file"], one["n"]) for one in found] == [(str(changed), 90), (str(steady), 90)]
    assert found[1]["change_points"] == []
    up, down = found[0]["change_points"]
    assert (up["index"], down["index"]) == (30, 60)
    assert up["low"] < 1.1 < up["high"]
    assert (up["verdict"], up["run"], up["last_old"]) == ("changed", "b30", {"run": "b29"})


def test_the_table_of_files_says_what_and_where(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["history", "--csv", str(write_csv(tmp_path / "a.csv", LATENCY))]) == 0
    out, err = capsys.readouterr()
    header, first, second = out.splitlines()
    assert "verdict" in header
    assert "commits" not in header
    assert "point 30 (b30)" in first
    assert "+1" in first
    assert "point 60 (b60)" in second
    assert err == "2 changes in 1 of 1 series: 2 of unknown direction\n"


def test_records_tell_when_which_commits_and_what_recovered(
    records: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    latency, memory = printed_json(capsys, "--records", records)
    assert latency["series"]["model"] == "resnet | *50*"
    assert memory["change_points"] == []
    up, down = latency["change_points"]
    assert (up["verdict"], down["verdict"]) == ("regressed", "improved")
    assert (up["timestamp"], up["commit"], up["torch"]) == (START + 30 * DAY, f"{30:040x}", f"{530:040x}")
    assert up["last_old"]["commit"] == f"{29:040x}"
    assert up["recovered"] == {key: down[key] for key in ("timestamp", "commit", "torch")}


def test_the_table_of_records_has_the_newest_first(records: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["history", "--records", str(records)]) == 0
    out, err = capsys.readouterr()
    same, _, first, second = out.splitlines()  # what is the same in both rows is said once, above them
    assert re.search(r"improved +11 → 9\.998 ", first)
    assert re.search(r"regressed +9\.987 → 11 ", second)
    assert "resnet | *50*" in same
    own, torch = f"{29:040x}"[:10] + ".." + f"{30:040x}"[:10], f"{529:040x}"[:10] + ".." + f"{530:040x}"[:10]
    assert f"{own}, PyTorch {torch}" in same
    assert "recovered 20" in second
    assert (
        err == "2 changes in 1 of 2 series: 1 regressed, 1 improved; 1 of the regressions recovered since\n"
    )


def test_since_leaves_out_what_is_older_and_still_knows_the_level_before(
    records: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    latency, _ = printed_json(capsys, "--records", records, "--since", START + 59 * DAY)
    (down,) = latency["change_points"]
    assert down["timestamp"] == START + 60 * DAY
    assert (down["old"], down["new"]) == pytest.approx((11, 10), rel=0.01)


def test_a_throughput_is_not_judged_beside_its_latency(
    records: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    again = [
        record("resnet | *50*", "throughput(samples/s)", 80 / value, day) for day, value in enumerate(LATENCY)
    ]
    (records / "again.json").write_text(json.dumps(again))
    found = printed_json(capsys, "--records", records)
    assert [one["series"]["metric"] for one in found] == ["latency(ms)", "peak_memory(MiB)"]


def test_results_of_other_branches_are_left_out_and_counted(
    records: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    unnamed = record("resnet | *50*", "latency(ms)", 20.1, 95, "")
    imported = {**record("imported", "latency(ms)", 1, 95, ""), "benchmark": {"name": "other"}}
    (records / "unnamed.json").write_text(json.dumps([unnamed, imported]))
    expected = printed_json(capsys, "--records", records)
    tried = [record("resnet | *50*", "latency(ms)", 20, day, "try") for day in range(5, 25)]
    (records / "try.json").write_text(json.dumps(tried))
    dsn = f"chdb://{tmp_path / 'store'}"
    with open_store(dsn) as store:
        ingest_place(store, open_place(str(records)))
    assert main(["history", "--records", str(records), "--json"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out) == expected
    assert "20 results of other branches than main left out" in err
    for arguments in (("--records", records, "--branch", "main"), ("--store", dsn)):
        latency = next(
            one for one in printed_json(capsys, *arguments) if "latency" in one["series"]["metric"]
        )
        assert latency["n"] == 91
        assert [change["index"] for change in latency["change_points"]] == [30, 60]
    for where in (("--records", records), ("--store", dsn)):
        tries, *_ = printed_json(capsys, *where, "--branch", "try")
        assert tries["n"] == 21


def test_the_trunk_is_that_of_the_benchmark_also_for_a_series_that_a_branch_has_longer(
    records: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A new workload was measured on its branch before it was merged; another one has not been merged yet."""
    tried = [record("new", "latency(ms)", 20, day, "feature") for day in range(80, 86)]
    merged = [record("new", "latency(ms)", 30, day) for day in range(87, 90)]
    alone = [record("later", "latency(ms)", 20, day, "other") for day in range(3)]
    (records / "new.json").write_text(json.dumps([*tried, *merged, *alone]))
    found = {one["series"]["model"]: one["n"] for one in printed_json(capsys, "--records", records)}
    assert found == {"resnet | *50*": 90, "new": 3, "later": 3}


def test_a_store_tells_the_same(records: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dsn = f"chdb://{tmp_path / 'store'}"
    with open_store(dsn) as store:
        ingest_place(store, open_place(str(records)))
    latency, memory = sorted(printed_json(capsys, "--store", dsn), key=lambda one: one["series"]["metric"])
    expected, _ = printed_json(capsys, "--records", records)
    assert (latency["n"], memory["n"], memory["change_points"]) == (90, 90, [])
    assert latency["series"] == expected["series"]
    for change, other in zip(latency["change_points"], expected["change_points"], strict=True):
        for key in ("index", "verdict", "timestamp", "commit", "torch", "last_old"):
            assert change[key] == other[key]
        # The store keeps values in single precision.
        assert change["ratio"] == pytest.approx(other["ratio"], rel=1e-6)


def test_no_record_is_refused_silently(records: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (records / "bad.json").write_text('[{"benchmark": 3}]')
    assert main(["history", "--records", str(records)]) == 3
    out, err = capsys.readouterr()
    assert "regressed" in out
    assert "bad.json" in err
    assert "are not valid records; the rest was analyzed" in err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--records", "x", "--csv", "y"], "--records and --csv exclude each other: give only one"),
        (["--csv", "y", "--since", "2026-01-01"], "remove --since and --branch"),
        (["--records", "nowhere"], "there is no such file or directory"),
        (["--store", "chdb://nowhere"], "there is no store"),
    ],
)
def test_a_call_that_cannot_be_answered_says_why(
    arguments: list[str],
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["history", *arguments]) == 2
    assert said in capsys.readouterr().err


def test_the_commits_of_pytorchs_own_repository_are_told_once(
    records: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for path in records.glob("*.json"):
        found = json.loads(path.read_text())
        for one in found:
            one["dependencies"]["pytorch"]["sha"] = one["head_sha"]
        path.write_text(json.dumps(found))
    assert main(["history", "--records", str(records)]) == 0
    out = capsys.readouterr().out
    assert "0000000000..0000000000" in out
    assert "PyTorch" not in out


def test_a_change_of_machine_is_told_once_for_all_series(
    records: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for day in range(45, 90):
        found = json.loads((records / f"run-{day}.json").read_text())
        for one in found:
            driver = "560" if day < 70 else "570"
            one["runners"][0]["extra_info"] = {"fingerprint_of": "driver", "driver": driver}
        (records / f"run-{day}.json").write_text(json.dumps(found))
    for since, changes in ((0, ["560 → 570", "not known → 560"]), (50, ["560 → 570"])):
        assert main(["history", "--records", str(records), "--since", str(START + since * DAY)]) == 0
        assert [
            line.partition(": ")[2] for line in capsys.readouterr().out.splitlines() if "driver" in line
        ] == [
            f"other conditions, so nothing is compared across it in 2 series: driver: {change}"
            for change in changes
        ]


def test_lines_of_a_file_are_runs_of_their_own_whatever_they_are_called(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.csv").write_text("".join(f"main,{value}\n" for value in LATENCY))
    (found,) = printed_json(capsys, "--csv", tmp_path / "a.csv")
    assert [change["index"] for change in found["change_points"]] == [30, 60]


@pytest.mark.parametrize(
    ("metric", "level", "word"), [("accuracy", (0.78, 0.6), "regressed"), ("score", (-5.0, -9.0), "changed")]
)
def test_what_only_the_values_tell_is_judged_as_by_check(
    metric: str, level: tuple[float, float], word: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    values = [one * factor for one in level for factor in noisy(1, 30, cv=0.002)]
    found = [record("resnet", metric, value, day) for day, value in enumerate(values)]
    (tmp_path / "records.json").write_text(json.dumps(found))
    (series,) = printed_json(capsys, "--records", tmp_path / "records.json")
    (change,) = series["change_points"]
    assert (change["index"], change["verdict"]) == (30, word)
    assert (change["old"], change["new"]) == pytest.approx(level, rel=0.01)


def test_a_directory_without_a_record_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["history", "--records", str(tmp_path)]) == 2
    assert f"{tmp_path}: contains no records" in capsys.readouterr().err


def test_values_of_any_size_are_looked_at(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (found,) = printed_json(capsys, "--csv", write_csv(tmp_path / "a.csv", [1e-300] * 20 + [1e300] * 20))
    assert [change["index"] for change in found["change_points"]] == [20]


def test_whoever_gives_files_says_what_matters_and_which_way_is_better(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    small = [*noisy(10, 30, 0.002), *noisy(10.4, 30, 0.002, seed=1), *noisy(12, 30, 0.002, seed=2)]
    file = write_csv(tmp_path / "a.csv", small)
    (down,) = printed_json(capsys, "--csv", file, "--direction", "down")
    assert [(one["index"], one["verdict"]) for one in down["change_points"]] == [
        (30, "regressed"),
        (60, "regressed"),
    ]
    (up,) = printed_json(capsys, "--csv", file, "--direction", "up", "--min-effect", "10%")
    assert [(one["index"], one["verdict"]) for one in up["change_points"]] == [(60, "improved")]
    (both,) = printed_json(capsys, "--csv", file, "--direction", "both")
    assert [one["verdict"] for one in both["change_points"]] == ["changed", "changed"]


def test_the_least_effect_goes_with_records_and_a_direction_does_not(
    records: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    latency, _ = printed_json(capsys, "--records", records, "--min-effect", "0.2")
    assert latency["change_points"] == []
    assert main(["history", "--records", str(records), "--direction", "down"]) == 2
    assert "--direction is only for --csv" in capsys.readouterr().err


@pytest.mark.parametrize(("runs", "told"), [(0, False), (2, False), (3, True), (30, False)])
def test_what_check_sees_in_runs_that_are_no_level_yet_is_said(
    runs: int, told: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write_csv(tmp_path / "a.csv", [*noisy(10, 60), *noisy(15, runs, seed=1)])
    (found,) = printed_json(capsys, "--csv", file)
    assert ("newest" in found) == told
    assert len(found["change_points"]) == (runs == 30)
    assert main(["history", "--csv", str(file)]) == 0
    out, _ = capsys.readouterr()
    said = f"the last {runs} runs differ from those before by +5" in out and "no change of level yet" in out
    assert said == told
    if told:
        assert found["newest"]["runs"] == runs
        assert found["newest"]["ratio"] == pytest.approx(1.5, rel=0.02)
