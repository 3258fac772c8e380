"""``torchperf baseline update``, and ``check`` against what it has written."""

from __future__ import annotations

import json
import shlex
from typing import TYPE_CHECKING, Any

import pytest
from checking import record as record_of_night
from checking import run, verdicts
from jsonschema import Draft202012Validator
from made_points import noisy

from torchperf_ci import cli
from torchperf_ci.check.baselines import BASELINE_FORMAT
from torchperf_ci.errors import RecordsError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

OLD_DRIVER, NEW_DRIVER = ({"driver": driver, "fingerprint_of": "driver"} for driver in ("550", "560"))


def record(
    metric: str, values: list[float], facts: dict[str, str] = OLD_DRIVER, **extra: Any
) -> dict[str, Any]:
    return {
        "runners": [{"name": "cuda", "type": "H100", "extra_info": facts}],
        "benchmark": {
            "name": "nightly",
            "mode": "inference",
            "dtype": "bf16",
            "extra_info": {"batch_size": "8"},
        },
        "model": {"name": "resnet", "backend": "eager"},
        "metric": {"name": metric, "benchmark_values": values, "extra_info": extra},
        "dependencies": {"pytorch": {"sha": "ab" * 20}},
    }


def measure(folder: Path, values: list[float], facts: dict[str, str] = OLD_DRIVER) -> Path:
    """A run a value."""
    for number, value in enumerate(values):
        path = folder / f"run-{number}"
        path.mkdir(parents=True)
        records = [record("latency(ms)", [value], facts), record("status", [1.0], facts, status="pass")]
        (path / "records.json").write_text(json.dumps(records))
    return folder


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, git: Callable[..., str]) -> None:
    """In a repository whose user is known."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GITHUB_ACTOR", raising=False)
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "config", "user.name", "Ada")
    git(tmp_path, "config", "user.email", "ada@example.org")


def update(folder: Path, reason: str = "a reason", *more: str) -> int:
    return cli.main(["baseline", "update", "--reason", reason, *more, str(folder)])


def baselines() -> list[dict[str, Any]]:
    from pathlib import Path

    content = json.loads(Path("baseline.json").read_text())
    Draft202012Validator(BASELINE_FORMAT.schema).validate(content)
    return content["baselines"]


def test_it_says_where_it_comes_from_and_has_a_number_a_run(tmp_path: Path) -> None:
    assert update(measure(tmp_path / "runs", [10.0, 10.123456789, 9.9]), "PyTorch 2.13") == 0
    (one,) = baselines()
    assert (one["reason"], one["by"], one["torch"], one["runs"]) == (
        "PyTorch 2.13",
        "Ada <ada@example.org>",
        "ab" * 20,
        3,
    )
    assert one["command"] == f"torchperf baseline update --reason 'PyTorch 2.13' {tmp_path}/runs"
    assert one["machine"] == {"driver": "550"}
    latency, status = one["series"]
    assert (latency["values"], latency["facts"]) == ([10.0, 10.1235, 9.9], {"batch_size": "8"})
    assert status["values"] == [1.0, 1.0, 1.0]


@pytest.mark.parametrize(
    ("metric", "values", "kept"),
    [
        ("latency(ms)", [[10.0], [12.0], [11.0]], {"graph_breaks": [3.0], "latency(ms)": [11.0]}),
        ("recompiles", [[1.0], [2.0]], {"graph_breaks": [3.0], "recompiles": [1.0]}),
        ("status", [[1.0], [0.0], [1.0]], {"status": [0.0]}),
        ("status", [[1.0, 0.0, 1.0]], {"status": [0.0]}),
    ],
)
def test_a_run_is_one_number(tmp_path: Path, metric: str, values: list[list[float]], kept: object) -> None:
    """What a failed case has not measured is none."""
    records = [*(record(metric, some) for some in values), record("graph_breaks", [3.0])]
    (tmp_path / "a.json").write_text(json.dumps(records))
    update(tmp_path)
    (one,) = baselines()
    assert {row["metric"]: row["values"] for row in one["series"]} == kept
    assert one["runs"] == 1


@pytest.mark.parametrize(
    ("batch_size", "word", "latencies", "outcomes"),
    [
        ("0", "failed", [10.0, 10.0], [1.0, 1.0, 0.0]),  # before its batch size was known
        ("0", "unsupported", [10.0, 10.0], [1.0, 1.0]),  # neither passed nor failed
        ("16", "pass", [19.0], [1.0, 1.0, 1.0]),
    ],
)
def test_the_last_run_may_differ(
    tmp_path: Path, batch_size: str, word: str, latencies: list[float], outcomes: list[float]
) -> None:
    runs = measure(tmp_path / "runs", [10.0] * 3)
    last = [record("status", [float(word == "pass")], status=word), record("latency(ms)", [19.0])]
    for one in last:
        one["benchmark"] = {**one["benchmark"], "extra_info": {"batch_size": batch_size}}
    (runs / "run-2" / "records.json").write_text(json.dumps(last))
    update(runs)
    kept = {row["metric"]: row["values"] for row in baselines()[0]["series"]}
    assert kept == {"latency(ms)": latencies, "status": outcomes}


def test_an_update_replaces_only_its_own_fingerprint_line_by_line(tmp_path: Path) -> None:
    update(measure(tmp_path / "old", [10.0] * 5))
    update(measure(tmp_path / "new", [20.0] * 5, NEW_DRIVER))
    before = (tmp_path / "baseline.json").read_text().splitlines()
    update(measure(tmp_path / "newer", [21.0] * 5, NEW_DRIVER), "slower, and known")
    after = (tmp_path / "baseline.json").read_text().splitlines()
    assert [one["machine"]["driver"] for one in baselines()] == ["550", "560"]
    changed = [line for line in after if line not in before]
    assert [line.split('"')[1] for line in changed if '"date"' not in line] == ["reason", "command", "repo"]


@pytest.mark.parametrize("metric", ["latency(ms)", "latency_vs_anchor(ratio)"])
def test_machines_of_one_fingerprint_are_told_apart_by_their_name(tmp_path: Path, metric: str) -> None:
    """Results of other tools have no facts of the machine, and anchored series leave them out."""
    facts = {} if metric == "latency(ms)" else OLD_DRIVER
    for arch, value in [("H100", 10.0), ("A100", 20.0), ("H100", 11.0)]:
        runners = [{"name": "cuda", "type": arch, "extra_info": facts}]
        (tmp_path / arch).mkdir(exist_ok=True)
        (tmp_path / arch / "a.json").write_text(json.dumps(record(metric, [value]) | {"runners": runners}))
        update(tmp_path / arch)
    kept = {row["arch"]: row["values"] for one in baselines() for row in one["series"]}
    assert kept == {"A100": [20.0], "H100": [11.0]}


def test_series_that_an_update_removes_are_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "shard-1").mkdir()
    both = [record("latency(ms)", [10.0]), record("peak_memory(MiB)", [10.0])]
    (tmp_path / "shard-1" / "a.json").write_text(json.dumps(both))
    update(tmp_path / "shard-1")
    assert "gone" not in capsys.readouterr().err
    (tmp_path / "shard-1" / "a.json").write_text(json.dumps(both[1:]))
    update(tmp_path / "shard-1")
    assert "1 series is gone that these records do not have" in capsys.readouterr().err


def test_few_runs_are_warned_of(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    update(measure(tmp_path / "runs", [10.0] * 2))
    assert "at least 5 runs to estimate the noise" in capsys.readouterr().err
    update(measure(tmp_path / "more", [10.0] * 5))
    assert "to estimate the noise" not in capsys.readouterr().err


def test_new_records_are_judged_by_the_baseline_of_their_fingerprint(tmp_path: Path) -> None:
    update(measure(tmp_path / "old", noisy(10, 8)))
    update(measure(tmp_path / "new", noisy(20, 8), NEW_DRIVER))
    for facts, level, code in [
        (OLD_DRIVER, 10, 0),
        (NEW_DRIVER, 20, 0),
        (OLD_DRIVER, 12, 1),
        (NEW_DRIVER, 24, 1),
    ]:
        folder = measure(tmp_path / f"check-{level}-{facts['driver']}", noisy(level, 3, seed=1), facts)
        assert cli.main(["check", str(folder), "--against", "baseline.json"]) == code, (facts, level)


def test_a_baseline_of_several_nights_keeps_the_commit_of_each(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A change among them is not of the newest one, and no other cause is claimed for it."""
    for day, value in enumerate([*noisy(10, 28), 12.0, 12.1]):
        run(tmp_path / "nights", f"run-{day}", [record_of_night("latency(ms)", value, day)])
    assert update(tmp_path / "nights") == 0
    assert "1 series of 30 runs on" in capsys.readouterr().err
    assert [one["commit"] for one in baselines()] == [f"{day:040x}" for day in range(30)]
    night = run(tmp_path, "night", [record_of_night("latency(ms)", 12.05, 30)])
    assert cli.main(["check", str(night), "--against", "baseline.json"]) == 1
    (verdict,) = verdicts(tmp_path)
    ends = [verdict["evidence"][end]["commit"] for end in ("last_old", "first_new")]
    assert ends == [f"{27:040x}", f"{28:040x}"]
    assert "same commit" not in verdict["why"]


def test_a_machine_without_a_baseline_is_not_comparable(tmp_path: Path) -> None:
    update(measure(tmp_path / "old", noisy(10, 8)))
    folder = measure(tmp_path / "new", [20.0], NEW_DRIVER)
    assert cli.main(["check", str(folder), "--against", "baseline.json"]) == 0
    verdicts = json.loads((tmp_path / "verdicts.json").read_text())["verdicts"]
    assert [(verdict["verdict"], verdict["why"]) for verdict in verdicts] == [
        ("not-comparable", "earlier runs differ in driver: 550 → 560"),
        ("unchanged", "passes as before"),
    ]


def test_an_outcome_on_a_machine_without_a_baseline_is_compared_with_the_newest(tmp_path: Path) -> None:
    update(measure(tmp_path / "old", [10.0], NEW_DRIVER))
    update(measure(tmp_path / "new", [10.0], OLD_DRIVER))
    file = tmp_path / "baseline.json"
    made = json.loads(file.read_text())
    newest, _ = made["baselines"]
    newest["date"] = "2126-01-01T00:00:00+00:00"
    next(row for row in newest["series"] if row["metric"] == "status")["values"] = [0.0]
    file.write_text(json.dumps(made))
    other = {"driver": "570", "fingerprint_of": "driver"}
    assert (
        cli.main(["check", str(measure(tmp_path / "now", [10.0], other)), "--against", "baseline.json"]) == 0
    )
    verdicts = json.loads((tmp_path / "verdicts.json").read_text())["verdicts"]
    assert [verdict["verdict"] for verdict in verdicts] == ["not-comparable", "fixed"]


def test_a_failure_in_words_is_kept_as_one(tmp_path: Path) -> None:
    for name, word in [("good", "pass"), ("bad", "fail_accuracy")]:
        (tmp_path / name).mkdir()
        accuracy = record("accuracy", []) | {
            "metric": {"name": "accuracy", "extra_info": {"benchmark_values": [word]}}
        }
        (tmp_path / name / "a.json").write_text(json.dumps([accuracy]))
    update(tmp_path / "good")
    assert cli.main(["check", "bad", "--against", "baseline.json"]) == 1


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "baseline.json: is not valid JSON"),
        ("[]", "baseline.json: is not an object; expected: Baselines of torchperf-ci"),
        ('{"version": 2, "baselines": []}', "baseline.json: version 2 is newer than this torchperf"),
        ('{"version": 1, "baselines": [{}]}', "baseline.json: $.baselines[0]: 'fingerprint' is a required"),
    ],
)
def test_another_file_is_neither_read_nor_overwritten(
    tmp_path: Path, content: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "baseline.json").write_text(content)
    assert update(measure(tmp_path / "runs", [1.0])) == 2
    assert message in capsys.readouterr().err
    assert (tmp_path / "baseline.json").read_text() == content


def test_a_baseline_that_is_a_link_is_neither_read_nor_overwritten(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "baseline.json").symlink_to("/proc/self/environ")
    assert update(measure(tmp_path / "runs", [1.0])) == 2
    assert "it is a link, not a regular file" in capsys.readouterr().err
    assert (tmp_path / "baseline.json").is_symlink()


def test_what_is_no_utf8_in_a_reason_is_replaced_as_from_a_terminal_of_latin_1(tmp_path: Path) -> None:
    assert update(measure(tmp_path / "runs", [1.0]), "f\udcfcr 2.13") == 0
    assert baselines()[0]["reason"] == "f?r 2.13"


@pytest.mark.parametrize("argv", [[], ["--reason", "x"], ["runs"]])
def test_a_reason_and_records_are_needed(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["baseline", "update", *argv]) == 2
    assert "torchperf baseline update --reason TEXT DIR" in capsys.readouterr().err


def test_records_without_a_number_make_no_baseline(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.json").write_text(json.dumps([record("latency(ms)", [])]))
    assert update(tmp_path) == RecordsError.exit_code
    assert "no record has a number or an outcome" in capsys.readouterr().err
    assert not (tmp_path / "baseline.json").exists()


def test_refused_records_are_told_and_the_rest_is_kept(tmp_path: Path) -> None:
    folder = measure(tmp_path / "runs", [10.0] * 5)
    (folder / "bad.json").write_text("{}")
    assert update(folder) == 3
    assert len(baselines()[0]["series"]) == 2


def test_the_command_that_is_kept_makes_this_very_file(tmp_path: Path) -> None:
    update(measure(tmp_path / "records", [1.0]), "a reason", "--baseline", "other.json")
    (one,) = json.loads((tmp_path / "other.json").read_text())["baselines"]
    argv = shlex.split(one["command"])
    (tmp_path / "other.json").rename(tmp_path / "kept.json")
    assert cli.main(argv[1:]) == 0
    (again,) = json.loads((tmp_path / "other.json").read_text())["baselines"]
    assert {**again, "date": ""} == {**one, "date": ""}
