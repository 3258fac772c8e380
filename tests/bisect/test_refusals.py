"""Invalid input is refused at once, before anything is built, with advice."""

from __future__ import annotations

import json
import os

import pytest

from torchperf_ci.bench.pairs import Pair
from torchperf_ci.bisect import laboratory
from torchperf_ci.records import files

NIGHTLY = ("--builder", "nightly", "--wheels", ".")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "nothing to bisect: give a --suite, a --workload, a --command or a --verdicts file"),
        (("--workload", "x"), "the range is incomplete: give both --good and --bad"),
        (("--workload", "x", "--good", "HEAD~1"), "give both --good and --bad"),
        (("--workload", "x", "--command", "y"), "--command and --workload exclude each other"),
        (("--verdicts", "x", "--command", "y"), "--command and --verdicts exclude each other"),
        (("--verdicts", "x", "--workload", "y"), "remove --workload"),
        (("--verdicts", "x", "--metric", "graph_breaks"), "remove --metric"),
        (
            ("--verdicts", "x", "--batch-size", "auto"),
            "how it was measured: remove --batch-size or --verdicts",
        ),
        (("--verdicts", "x"), "x: cannot be read"),
        (("--workload", "x", "--metric", "speed"), "but latency(ms), throughput(samples/s)"),
        (("--command", "x", "--builder", "wheel"), "give --wheels"),
        (("--command", "x", "--builder", "command"), "give it with --build"),
        (("--command", "x", "--builder", "docker"), "unknown value for --builder 'docker'"),
        (("--command", "x", *NIGHTLY), "--good is the date of a nightly, such as 2026-11-01, not 'HEAD~1'"),
        (("--command", "cat {worktree}/x", "--builder", "wheel", "--wheels", "."), "uses {worktree}"),
        (("--command", "echo {sha}", *NIGHTLY), "uses {sha}, which this builder does not provide"),
        (("--command", "x", "--min-effect", "3"), "--min-effect cannot be '3'"),
        (("--command", "x", "--python", "no such python"), "there is no Python at no such python"),
        (
            ("--metric", "latency(ms)", "--suite", "new.py"),
            "where it has to be even to measure other commits",
        ),
        (("--command", "x", "--good", "v9"), ": git knows no commit of this name; if another clone has it"),
        (
            ("--command", "x", "--good", "HEAD:x"),
            ": git knows no commit of this name; if another clone has it",
        ),
        (("--command", "x", "--good", "^HEAD~1"), "git reads it as a range or as commits to leave out"),
        (("--command", "x", "--bad", "HEAD~1..HEAD"), "--bad 'HEAD~1..HEAD' is not a commit, branch or tag"),
        (("--command", "x", "--good=-h"), "--good '-h' is not a commit, branch or tag"),
        (("--command", "x", "--good", "HEAD", "--bad", "HEAD~1"), "good is newer than bad: swap them"),
        (("--command", "x", "--bad", "HEAD~1"), "are the same commit"),
    ],
)
def test_a_call_that_makes_no_sense_is_told(bisect, history, capsys, arguments, message) -> None:
    history.costs(100, 120)
    wants_ends = {"--command"} & {*arguments} or {"--builder", "--metric"} & {*arguments}
    ends = ("--good", "HEAD~1", "--bad", "HEAD") if wants_ends else ()
    assert bisect.code(*ends, *arguments, command="") == 2
    said = capsys.readouterr().err
    assert message in said
    assert "building" not in said
    assert not bisect.state.exists()


@pytest.mark.parametrize("option", ["--out", "--state"])
def test_a_device_gets_no_files_beside_it(bisect, history, tmp_path, capsys, monkeypatch, option) -> None:
    """``--out /dev/null`` kept the state and the profiles in ``/dev``, as far as the user might write there."""
    good, bad = history.costs(100, 120)
    devices = tmp_path / "dev"
    devices.mkdir()
    os.mkfifo(devices / "null")
    monkeypatch.setattr(files, "DEVICES", devices)
    assert bisect.code("--good", good, "--bad", bad, option, str(devices / "null")) == 2
    assert "null is a device, and further files are kept beside it: name a file" in capsys.readouterr().err
    assert [*devices.iterdir()] == [devices / "null"]


def test_a_state_in_the_file_of_the_answer_is_refused(bisect, history, capsys) -> None:
    """The answer replaced it, so that the next call had nothing to continue from, and refused that file."""
    good, bad = history.costs(100, 120)
    again = bisect.out.parent / "." / "x" / ".." / bisect.out.name
    assert bisect.code("--good", good, "--bad", bad, "--state", str(again)) == 2
    assert "--out and --state are the same file" in capsys.readouterr().err
    assert not bisect.out.exists()


def test_a_shard_is_not_for_a_bisection(bisect, capsys) -> None:
    assert bisect.code("--shard", "1/2") == 2
    assert "unknown option of torchperf bisect '--shard'" in capsys.readouterr().err


def test_a_command_that_prints_other_metrics_is_told_which(bisect, history, capsys) -> None:
    record = (
        '{"benchmark": {"name": "b"}, "model": {"name": "m"}, '
        '"metric": {"name": "latency(ms)", "benchmark_values": [1]}}'
    )
    good, bad = history.costs(f"echo '{record}'", f"echo '{record}'")
    assert bisect.code("--good", good, "--bad", bad, "--metric", "throughput(samples/s)") == 3
    said = capsys.readouterr().err
    assert "its records (of latency(ms)) have no number of 'throughput(samples/s)'" in said
    assert not bisect.state.exists()


def test_a_workload_that_good_does_not_have_is_told(bisect, history, torch_environment, capsys) -> None:
    good, bad = history.costs(100, 120)
    python = str(torch_environment / "bin/python")
    ends = ("--good", good, "--bad", bad, "--python", python)
    assert bisect.code(*ends, "--workload", "language/berd", command="") == 2
    said = capsys.readouterr().err
    assert f"unknown workload of the good build, {good[:10]} Change 0, 'language/berd': did you mean" in said
    assert not bisect.state.exists()


def test_a_suite_that_good_cannot_import_is_told(bisect, history, torch_environment, capsys) -> None:
    suite = history.folder / "suite.py"
    good, bad = history.commit("old = 1", suite.name), history.commit("1", "newer.py")
    suite.write_text("import newer\n")
    ends = ("--good", good, "--bad", bad, "--python", str(torch_environment / "bin/python"))
    assert bisect.code(*ends, "--suite", str(suite), command="") == 2
    said = capsys.readouterr().err
    assert f"on the good build, {good[:10]} old = 1: {suite}:1: importing the file raised" in said
    assert "or give --suite the file as it was then, which `git show` prints\n" in said


def test_a_build_that_installs_no_torch_is_told(bisect, history, quick, capsys) -> None:
    good, bad = history.costs(100, 120)
    ends = ("--good", good, "--bad", bad, "--python", quick)
    assert bisect.code(*ends, "--build", "true", "--workload", "vision/resnet18", command="") == 2
    assert (
        "only what --build or the wheel installs there, which has to include torch" in capsys.readouterr().err
    )


def test_sources_that_nobody_compiles_and_a_suite_that_imports_no_code_are_told(
    bisect, history, torch_environment, tmp_path, monkeypatch
) -> None:
    """The builds are real, and asked what they can run; no pair of them is measured."""
    monkeypatch.setattr(laboratory, "measure_pair", lambda *_, **__: Pair((0.0,), 1e-3, 1e-3))
    suite = tmp_path / "suite.py"
    suite.write_text(
        "import torch\nfrom torchperf_ci.suite import Task, workload\n"
        "one = workload('made/one', 'a sum', modes=('inference',))(lambda batch: Task(torch.sin, (torch.ones(4),)))\n"
    )
    config = tmp_path / "torchperf.yml"
    config.write_text(f"suites: {{mine: {{workloads: [{suite}]}}}}\n")
    good, bad = (history.commit(text, "csrc/kernel.c") for text in ("fast", "slow"))
    ends = ("--good", good, "--bad", bad, "--python", str(torch_environment / "bin/python"))
    where = ("--config", str(config), "--workload", "made/one")
    told = bisect(*ends, *where, "--max-runs", "1", command="", code=5)
    assert told.notes[0].startswith("⚠ csrc/kernel.c changed, and no --build compiles it")
    assert any("imports no code of these commits" in note for note in told.notes)
    versions = json.loads(bisect.state.read_text().partition("\n")[0])["plan"]["packages"]
    assert versions["torch"].startswith(told.torch)


@pytest.mark.parametrize(
    ("folder", "why"), [("empty", "is in no git checkout"), ("missing", "there is no directory")]
)
def test_where_there_is_no_checkout_that_is_said_and_nothing_else(
    bisect, tmp_path, capsys, folder, why
) -> None:
    (tmp_path / "empty").mkdir()
    bisect.repo = tmp_path / folder
    assert bisect.code("--good", "v1", "--bad", "main") == 2
    said = capsys.readouterr().err
    assert why in said
    assert str(bisect.repo) in said
    assert said.endswith("go to the checkout that has the commits, or name it with --repo\n")


def test_a_checkout_that_git_does_not_trust_is_no_other_checkout(bisect, capsys, monkeypatch) -> None:
    """As in a job with ``container:``, which is root's. What git says to do ends the line, and can be copied."""
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
    assert bisect.code("--good", "v1", "--bad", "main") == 2
    said = capsys.readouterr().err
    assert said.endswith(f"git config --global --add safe.directory '{bisect.repo}'\n")
