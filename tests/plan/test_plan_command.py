"""``torchperf plan`` as people and jobs call it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from made_points import series
from made_status import a_status
from runner_log import commands

from torchperf_ci import cli
from torchperf_ci.bench.case import read_costs
from torchperf_ci.stats.effect import Effect
from torchperf_ci.verdicts.verdict import (
    CommitRange,
    Evidence,
    Judgement,
    RangeEnd,
    Verdict,
    read_verdicts,
    write_verdicts,
)

GOOD, BAD, WORSE = (letter * 40 for letter in "abc")
CONFIG = """
version: 1
name: nightly
runners:
  h100: {labels: [linux.aws.h100], device: cuda, tune: true}
  spr: {device: cpu}
  m2: {device: mps}
suites:
  core: {runners: [h100, spr], shards: 2}
"""
HOSTILE = "a\n::error::pwned|<b>@octocat #1"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a configuration, in no job."""
    monkeypatch.chdir(tmp_path)
    for name in ("GITHUB_ACTIONS", "TORCHPERF_STORE"):
        monkeypatch.delenv(name, raising=False)
    Path("torchperf.yml").write_text(CONFIG)
    return tmp_path


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a job's files: its outputs and its summary."""
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    for name in ("OUTPUT", "STEP_SUMMARY"):
        monkeypatch.setenv(f"GITHUB_{name}", str(tmp_path / name))
    return tmp_path


def outputs(job: Path) -> dict[str, str]:
    """What the runner reads: each value between its name and its delimiter."""
    found, lines = {}, iter((job / "OUTPUT").read_text().splitlines())
    for line in lines:
        name, _, end = line.partition("<<")
        found[name] = "\n".join(iter(lambda end=end: next(lines), end))
    return found


def plan(*argv: object) -> int:
    return cli.main(["plan", *map(str, argv)])


def test_the_jobs_as_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert plan() == 0
    shown = capsys.readouterr()
    assert shown.out.split("\n")[1].split() == [
        "h100-core-1-of-2",
        "linux.aws.h100",
        "cuda",
        "core",
        "1/2",
        "yes",
    ]
    assert shown.err == "no suite uses the runner 'm2'\n4 jobs\n"


def test_a_suite_file_that_is_not_there_is_told(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    suite = "  own: {workloads: [there.py, 'vision/*', benchmarks/gone.py], runners: [spr]}\n"
    (here / "torchperf.yml").write_text(CONFIG + suite)
    (here / "there.py").touch()
    assert plan() == 0
    told = [line for line in capsys.readouterr().err.splitlines() if "suite file" in line]
    assert told == ["there is no suite file benchmarks/gone.py here: its jobs will fail"]


@pytest.mark.parametrize(
    ("other", "where", "refused"),
    [("my/net", "spr", True), ("my/gnat", "spr", False), ("my/net", "m2", False)],
)
def test_two_suite_files_share_no_name_of_a_workload_on_one_runner(
    other: str, where: str, refused: bool, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    more = f"  more: {{workloads: [./a.py, b.py], runners: [{where}]}}\n"
    (here / "torchperf.yml").write_text(f"{CONFIG}  own: {{workloads: [a.py], runners: [spr]}}\n{more}")
    (here / "a.py").write_text('@workload("my/net", "a task")\ndef net(size): ...\n')
    (here / "b.py").write_text(f"@suite.workload(\n    '{other}',\n    'a task'\n)\ndef net(size): ...\n")
    assert plan() == (2 if refused else 0)
    assert ("a.py and b.py both define the workload 'my/net'" in capsys.readouterr().err) is refused


def test_the_matrix_as_one_line_of_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert plan("--json") == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert [row["name"] for row in json.loads(line)["include"]] == [
        *("h100-core-1-of-2", "h100-core-2-of-2", "spr-core-1-of-2", "spr-core-2-of-2"),
    ]


def test_no_label_in_the_matrix_is_a_command_to_a_runner(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "torchperf.yml").write_text(CONFIG.replace("linux.aws.h100", "'##[group]'"))
    assert plan("--json") == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert json.loads(line)["include"][0]["labels"] == ["##[group]"]
    assert not [*commands([line])]


def test_the_outputs_of_a_job(job: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert plan() == 0
    found = outputs(job)
    rows = json.loads(found["matrix"])["include"]
    assert rows[0]["labels"] == ["linux.aws.h100"]
    assert found["names"].splitlines() == [row["name"] for row in rows]
    assert "::notice title=torchperf plan::no suite uses the runner 'm2'" in capsys.readouterr().err


def test_without_a_configuration_it_is_said_what_to_write(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "torchperf.yml").unlink()
    assert plan() == 2
    told = capsys.readouterr().err
    assert "the torchperf.yml of this folder or the file\ngiven with --config has to name them" in told
    assert "runners:\n    cpu: {labels: [ubuntu-24.04], device: cpu}" in told


def test_a_mistake_is_told_with_its_line(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "torchperf.yml").write_text(CONFIG.replace("shards", "shard"))
    assert plan() == 2
    assert (
        "torchperf.yml:9: suites.core: unknown key 'shard'; did you mean 'shards'?" in capsys.readouterr().err
    )


def test_names_out_of_the_file_are_data(here: Path, job: Path, capsys: pytest.CaptureFixture[str]) -> None:
    hostile = json.dumps(HOSTILE)
    (here / "torchperf.yml").write_text(
        f"version: 1\nrunners:\n  {hostile}: {{labels: [{hostile}]}}\n  unused: {{}}\n"
        f"suites: {{core: {{runners: [{hostile}]}}}}\n"
    )
    assert plan() == 0
    (row,) = json.loads(outputs(job)["matrix"])["include"]
    assert row["labels"] == [HOSTILE]
    assert row["name"] == "a-error-pwned-b-octocat-1-core"
    shown = capsys.readouterr()
    assert not [line for line in (shown.out + shown.err).splitlines() if line.startswith("::error")]


def ingested(here: Path, **seconds: float) -> str:
    """A store with what each model has cost yesterday."""
    records = [a_status(model, seconds=str(value)) for model, value in seconds.items()]
    (here / "kept").mkdir()
    (here / "kept/all.json").write_text(json.dumps(records))
    assert cli.main(["ingest", str(here / "kept"), "--store", f"chdb://{here}/store"]) == 0
    return f"chdb://{here}/store"


def test_costs_of_the_last_runs_are_written(
    here: Path, job: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dsn = ingested(here, bert=30.5, resnet=4)
    assert plan("--costs", "costs.json", "--store", dsn) == 0
    known = {"bert.inference.fp32.eager": 30.5, "resnet.inference.fp32.eager": 4.0}
    assert read_costs(here / "costs.json") == {"cpu": known}
    assert "costs of 2 cases on cpu in costs.json" in capsys.readouterr().err
    assert outputs(job)["costs"] == str(here / "costs.json")


@pytest.mark.parametrize(
    ("dsn", "why"),
    [("chdb://nowhere", "there is no store"), ("clickhouse://u@127.0.0.1:1/d", "does not answer")],
)
def test_no_store_costs_no_night(
    dsn: str, why: str, here: Path, job: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert plan("--costs", "costs.json", "--store", dsn) == 0
    assert read_costs(here / "costs.json") == {}
    notices = [line for line in capsys.readouterr().err.splitlines() if line.startswith("::notice")]
    assert any(why in line for line in notices)
    assert any("no costs of 'nightly' are known yet" in line for line in notices)
    assert outputs(job)["names"]


def regressed(ratio: float, bad: str = BAD, **changes: Any) -> Verdict:
    evidence = Evidence(CommitRange(RangeEnd(GOOD), RangeEnd(bad)))
    effect = Effect(ratio, ratio - 0.01, ratio + 0.01, 0)
    return Verdict(
        series(**changes), "regressed", "because", effect=effect, old=1.0, new=ratio, evidence=evidence
    )


@pytest.fixture
def night(here: Path) -> Path:
    """Two jobs have delivered, and something regressed on both machines, and later once more."""
    for name, device, arch in (("h100-core-1-of-2", "cuda", "H100"), ("spr-core-2-of-2", "cpu", "Xeon")):
        record = {
            "benchmark": {"name": "nightly"},
            "model": {"name": "m"},
            "metric": {"name": "latency(ms)", "benchmark_values": [1.0]},
            "runners": [{"name": device, "type": arch}],
        }
        (here / f"records/torchperf-records-{name}").mkdir(parents=True)
        (here / f"records/torchperf-records-{name}/m.json").write_text(json.dumps([record]))
    verdicts = [
        regressed(1.05),
        regressed(1.06, model=HOSTILE),
        regressed(1.50, device="cpu", arch="Xeon"),
        regressed(1.02, bad=WORSE),
        regressed(1.9, metric="warm_compile_time(s)"),
        Verdict(series(model="t5"), "noisy", "looks worse", candidate=True, evidence=regressed(1.1).evidence),
    ]
    write_verdicts(here / "verdicts.json", Judgement("check", "", "", verdicts))
    return here


def bisections(*argv: object) -> int:
    return plan("--verdicts", "verdicts.json", "--records", "records", *argv)


def test_the_bisections_of_a_night(night: Path, job: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert bisections("--budget", 5400, "--out", "out") == 0
    found = outputs(job)
    first, second, third = json.loads(found["matrix"])["include"]
    assert first == {
        "name": "spr-aaaaaaaaaa-bbbbbbbbbb",
        "runner": "spr",
        "labels": ["spr"],
        "device": "cpu",
        "good": GOOD,
        "bad": BAD,
        "verdicts": "spr-aaaaaaaaaa-bbbbbbbbbb.json",
        "deadline": 1800,
        "search": first["search"],
    }
    assert [row["name"] for row in (second, third)] == [
        "h100-aaaaaaaaaa-bbbbbbbbbb",
        "h100-aaaaaaaaaa-cccccccccc",
    ]
    assert (found["count"], found["out"]) == ("3", str(night / "out"))
    written = read_verdicts(night / "out" / second["verdicts"])
    assert [verdict.series.model for verdict in written.verdicts] == ["resnet", HOSTILE, "t5"]
    assert (written.base, written.head) == (GOOD, BAD)
    assert sorted(path.name for path in (night / "out").iterdir()) == sorted(
        row["verdicts"] for row in (first, second, third)
    )
    assert "Bisections tonight: 3 of 3; 1 series cannot be bisected" in capsys.readouterr().err


def searches(night: Path, verdicts: list[Verdict], capsys: pytest.CaptureFixture[str]) -> list[str]:
    write_verdicts(night / "verdicts.json", Judgement("check", "", "", verdicts))
    capsys.readouterr()
    assert bisections("--json") == 0
    return [row["search"] for row in json.loads(capsys.readouterr().out)["include"]]


def test_the_same_question_is_known_again_in_another_night(
    night: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    known = searches(night, [regressed(1.05), regressed(1.06, model="bert")], capsys)
    assert searches(night, [regressed(1.09, model="t5"), regressed(1.04)], capsys) == known
    for other in (
        [regressed(1.05, bad=WORSE), regressed(1.06, model="bert", bad=WORSE)],
        [
            regressed(1.05, device="cpu", arch="Xeon"),
            regressed(1.06, model="bert", device="cpu", arch="Xeon"),
        ],
    ):
        assert not set(searches(night, other, capsys)) & set(known)


def test_what_does_not_fit_is_said_with_its_size(
    night: Path, job: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert bisections("--budget", 1800) == 0
    assert outputs(job)["count"] == "1"
    assert [path.name for path in (night / "torchperf-bisections").iterdir()] == [
        "spr-aaaaaaaaaa-bbbbbbbbbb.json"
    ]
    shown = capsys.readouterr().err
    assert "Bisections tonight: 1 of 3; the budget is too small for 2; 1 series" in shown
    notices = [line for line in shown.splitlines() if line.startswith("::notice title=Not bisected tonight")]
    assert len(notices) == 2
    assert "h100 aaaaaaaaaa…bbbbbbbbbb: " in notices[0]
    assert "+6.0%25 (+5.0…+7.0) and 2 more: the budget is too small" in notices[0]
    summary = (job / "STEP_SUMMARY").read_text()
    assert "**Not bisected tonight**" in summary
    assert "+2.0% (+1.0…+3.0)" in summary


def test_hostile_names_stay_text_everywhere(
    night: Path, job: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert bisections() == 0
    assert not [line for line in capsys.readouterr().err.splitlines() if line.startswith("::error")]
    summary = (job / "STEP_SUMMARY").read_text()
    assert "<b>" not in summary
    assert "@octocat" not in summary


def test_the_same_as_a_table_and_as_json(night: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert bisections() == 0
    assert "spr-aaaaaaaaaa-bbbbbbbbbb" in capsys.readouterr().out
    assert bisections("--json") == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert [row["deadline"] for row in json.loads(line)["include"]] == [6000] * 3


def test_a_night_without_a_regression_has_nothing_to_bisect(
    night: Path, job: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_verdicts(night / "verdicts.json", Judgement("check", "", "", []))
    assert bisections() == 0
    assert (outputs(job)["count"], json.loads(outputs(job)["matrix"])) == ("0", {"include": []})
    assert (
        "Nothing is bisected: nothing regressed, and no candidate can be bisected" in capsys.readouterr().err
    )


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--records", "records"], "--records is only used with --verdicts: add --verdicts"),
        (["--budget", "60"], "--budget is only used with --verdicts"),
        (["--verdicts", "verdicts.json"], "--records is missing: give the directory of the jobs' artifacts"),
        (
            ["--verdicts", "verdicts.json", "--costs", "c.json"],
            "--verdicts plans bisections: give only one of them",
        ),
        (
            ["--verdicts", "verdicts.json", "--records", "nowhere"],
            "--records nowhere: no such directory",
        ),
        (["--verdicts", "nowhere.json", "--records", "records"], "nowhere.json: cannot be read"),
        (["--verdicts", "torchperf.yml", "--records", "records"], "is not valid JSON"),
        (["--config", "nowhere.yml"], "nowhere.yml: cannot be read"),
        (["--costs", "torchperf.yml/costs.json"], "cannot be written"),
    ],
)
@pytest.mark.usefixtures("night")
def test_what_cannot_be_planned_is_told(
    argv: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert plan(*argv) == 2
    assert message in capsys.readouterr().err
