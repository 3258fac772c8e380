"""The command as people call it, with real workers."""

from __future__ import annotations

import functools
import sys
from dataclasses import replace
from unittest.mock import Mock

import pytest

from torchperf_ci import cli
from torchperf_ci.bench import selection
from torchperf_ci.bench.case import Settings
from torchperf_ci.compare import command, compared_builds
from torchperf_ci.verdicts.verdict import Judgement, Verdict, read_verdicts


@pytest.fixture(scope="module")
def pythons(tmp_path_factory, torch_environment) -> dict[str, str]:
    """Two environments under test that know which side they are."""
    found = {}
    for side in ("base", "head"):
        python = tmp_path_factory.mktemp("sides") / f"python-{side}"
        python.write_text(f'#!/bin/sh\nSIDE={side} exec {torch_environment}/bin/python "$@"\n')
        python.chmod(0o755)
        found[side] = str(python)
    return found


@pytest.fixture(scope="module")
def describe():
    """What describes a side once for all tests."""
    return functools.cache(selection.describe_environment)


@pytest.fixture(autouse=True)
def _described_once(describe, monkeypatch) -> None:
    monkeypatch.setattr(selection, "describe_environment", describe)


def test_a_case_that_only_head_cannot_run_is_broken(pythons, suite, tmp_path, capsys) -> None:
    sides = ("--base", pythons["base"], "--head", pythons["head"])
    out = tmp_path / "verdicts.json"
    code = cli.main(["compare", *sides, "--suite", suite, "--filter", "made/breaks", "--out", str(out)])
    assert code == 1
    judgement = read_verdicts(out)
    words = {verdict.series.model: (verdict.verdict, verdict.why) for verdict in judgement.verdicts}
    reason = "failed: ZeroDivisionError: on purpose"
    assert words == {"made/breaks": ("broken", f"passes on base, but not on head: {reason}")}
    assert [verdict.evidence.threads for verdict in judgement.verdicts] == [1]
    assert judgement.base.startswith(f"{pythons['base']} (torch 2.")
    assert "1 broken" in capsys.readouterr().err


def test_a_suite_file_that_only_head_can_import_is_new_and_stops_nothing(
    pythons, suite, tmp_path, monkeypatch, capsys
) -> None:
    """As in a pull request that adds a function, and the file of workloads that imports it."""
    added = tmp_path / "added.py"
    added.write_text(
        "import os\nimport torch\nfrom torchperf_ci.suite import Task, workload\n"
        "if os.environ['SIDE'] == 'base':\n    import its_new_part\n"
        "new = workload('made/new', 'a sum', modes=('inference',))(lambda n: Task(torch.neg, (torch.ones(2),)))\n"
    )
    monkeypatch.setattr(command, "measure_rounds", lambda *_: None)
    out = tmp_path / "verdicts.json"
    selected = ("--suite", f"{suite},{added}", "--filter", "made/runs", "made/new", "--out", str(out))
    assert cli.main(["compare", "--base", pythons["base"], "--head", pythons["head"], *selected]) == 5
    assert "1 case in pairs of processes" in capsys.readouterr().err
    [new] = [verdict for verdict in read_verdicts(out).verdicts if verdict.series.model == "made/new"]
    assert new.verdict == "new"
    assert new.why.startswith("base has no such workload, and cannot import all suite files: ")
    assert new.why.endswith(
        "added.py:5: importing the file raised ModuleNotFoundError: No module named 'its_new_part'; "
        "install it, or name the folder that it is in: export PYTHONPATH=FOLDER"
    )
    assert cli.main(["compare", "--base", pythons["head"], "--head", pythons["base"], *selected]) == 2
    assert "No module named 'its_new_part'" in capsys.readouterr().err


def test_a_shard_without_a_case_is_told(pythons, suite, tmp_path, capsys) -> None:
    sides = ("--base", pythons["base"], "--head", pythons["head"])
    chosen = ("--suite", suite, "--shard", "3/3", "--out", str(tmp_path / "verdicts.json"))
    assert cli.main(["compare", *sides, *chosen]) == 2
    assert "shard 3/3 has nothing to measure: there are fewer cases than shards; plan fewer" in (
        capsys.readouterr().err
    )


def test_a_comparison_on_a_busy_machine_says_so_first(pythons, suite, tmp_path, a_pair, monkeypatch) -> None:
    busy = {"seconds": "3.0", "cpus": "2", "load": "9.00", "other_cpus": "1.70", "cpu_pressure": "0.930"}
    busy |= {"power_capped": "0.970", "gpu_sm_mhz": "1395"}

    def measure_rounds(measured, *_) -> None:
        measured.cases[0].pairs.append(replace(a_pair(), observed=busy))

    monkeypatch.setattr(command, "measure_rounds", measure_rounds)
    sides = ("--base", pythons["base"], "--head", pythons["base"])
    out = tmp_path / "verdicts.json"
    cli.main(["compare", *sides, "--suite", suite, "--filter", "made/runs", "--out", str(out)])
    first, second, third, *_ = read_verdicts(out).notes
    assert first == (
        "⚠ disturbed during the measurement: load 9.0 on 2 CPUs, 1.7 of them used by other work; "
        "tasks waited for a CPU 93% of the time"
    )
    assert second == (
        "in 1 of 1 case the GPU was at its power limit up to 97% of the time, its clock at 1395 MHz: "
        "its speed under sustained load"
    )
    assert third == "base and head are the same build: whatever differs is noise"


@pytest.mark.parametrize("backend", ["eager", "inductor"])
def test_that_compile_time_is_not_judged_is_said_where_something_is_compiled(
    pythons, suite, tmp_path, monkeypatch, backend
) -> None:
    monkeypatch.setattr(command, "measure_rounds", lambda *_: None)
    out = tmp_path / "verdicts.json"
    chosen = ("--suite", suite, "--filter", "made/runs", "--backend", backend, "--out", str(out))
    cli.main(["compare", "--base", pythons["base"], "--head", pythons["head"], *chosen])
    assert (command.COMPILE_TIME_NOTE in read_verdicts(out).notes) == (backend == "inductor")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "nothing to compare: give a Python, a wheel, a revision or a directory of records with --base"),
        (["--base", "x"], "with --head"),
        (["--base", "records", "--head", sys.executable], "--base records contains records"),
        (["--base", "records", "--head", "recrods"], "--head recrods is no directory that contains some"),
        (
            ["--base", "records", "--head", "20261101"],
            "--head 20261101 names a commit; if you mean the directory",
        ),
        (["--base", "nonsense", "--head", "nonsense"], "--base: 'nonsense' is not a file that can be run"),
        (
            ["--base", "/bin/false", "--head", "/bin/false"],
            "--head /bin/false: the worker exited with code 1",
        ),
        (["--base", "x", "--head", "x", "--min-effect", "3"], "--min-effect cannot be '3'"),
    ],
)
def test_a_call_that_makes_no_sense_is_told(tmp_path, monkeypatch, capsys, arguments, message) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("records", "20261101"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "one.json").write_text("[]")
    assert cli.main(["compare", *arguments]) == 2
    assert message in capsys.readouterr().err


def test_two_builds_that_find_different_devices_are_not_compared(monkeypatch, capsys) -> None:
    """As with ``--device auto``, where one of them is a build for CPUs."""
    found = {"base": "cpu", "head": "cuda"}
    opened = Mock(side_effect=lambda _, flag, *__, **___: Mock(settings=Settings("", found[flag])))
    monkeypatch.setattr(compared_builds, "_open", opened)
    assert cli.main(["compare", "--base", "torch==2.12.0", "--head", "torch==2.13.0"]) == 2
    assert "base would be measured on cpu and head on cuda" in capsys.readouterr().err


def test_directories_without_a_record_are_told(tmp_path, capsys) -> None:
    (tmp_path / "one.json").write_text("{}")
    assert cli.main(["compare", "--base", str(tmp_path), "--head", str(tmp_path)]) == 2
    assert "holds no records" in capsys.readouterr().err


def test_directories_of_records_are_compared(tmp_path, capsys) -> None:
    for side, value in (("base", 1.0), ("head", 2.0)):
        (tmp_path / side).mkdir()
        values = ", ".join(str(value + step / 1000) for step in range(8))
        metric = f'{{"name": "latency(ms)", "benchmark_values": [{values}]}}'
        (tmp_path / side / "records.json").write_text(
            f'[{{"benchmark": {{"name": "b"}}, "model": {{"name": "m"}}, "metric": {metric}}}]'
        )
    sides = ("--base", str(tmp_path / "base"), "--head", str(tmp_path / "head"))
    assert cli.main(["compare", *sides, "--out", str(tmp_path / "verdicts.json"), "--json"]) == 1
    assert '"verdict": "regressed"' in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["unchanged", "improved", "missing"], 0),
        (["unchanged", "noisy"], 0),
        (["unchanged", "noisy", "not-comparable"], 5),
        (["missing"], 5),
        ([], 5),
        (["noisy", "regressed"], 1),
        (["broken", "missing"], 1),
    ],
)
def test_the_exit_code_says_whether_head_is_worse_and_whether_that_is_known(
    naming, a_case, words, code
) -> None:
    verdicts = [Verdict(naming(a_case(), "m"), word, "") for word in words]
    assert command._exit_code(Judgement("compare", "", "", verdicts)) == code


def test_what_looks_worse_without_proof_is_not_known(naming, a_case) -> None:
    looks = Verdict(naming(a_case(), "m"), "noisy", "", candidate=True)
    fine = [Verdict(naming(a_case(), name), "unchanged", "") for name in ("n", "o")]
    assert command._exit_code(Judgement("compare", "", "", [looks, *fine])) == 5
