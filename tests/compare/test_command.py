"""The command as people call it, with real workers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from torchperf_ci import cli
from torchperf_ci.compare import command
from torchperf_ci.scratch import scratch_folder
from torchperf_ci.verdicts.verdict import Judgement, Verdict, read_verdicts

if TYPE_CHECKING:
    from collections.abc import Iterator

SUITE = """
import os
import torch
from torchperf_ci.suite import Task, workload

def fails_on(*sides):
    def model(x):
        if os.environ.get("SIDE") in sides:
            raise ZeroDivisionError("on purpose")
        return x + 1
    return model

def one(name, *sides):
    return workload(f"made/{name}", "a sum", modes=("inference",))(lambda n: Task(fails_on(*sides), (torch.ones(64),)))

runs = one("runs")
breaks = one("breaks", "head")
"""


@pytest.fixture
def suite(tmp_path) -> str:
    path = tmp_path / "suite.py"
    path.write_text(SUITE)
    return str(path)


@pytest.fixture
def pythons(tmp_path, torch_environment) -> dict[str, str]:
    """Two environments under test that know which side they are."""
    found = {}
    for side in ("base", "head"):
        python = tmp_path / f"python-{side}"
        python.write_text(f'#!/bin/sh\nSIDE={side} exec {torch_environment}/bin/python "$@"\n')
        python.chmod(0o755)
        found[side] = str(python)
    return found


def test_a_case_that_only_head_cannot_run_is_broken(pythons, suite, tmp_path, capsys) -> None:
    sides = ("--base", pythons["base"], "--head", pythons["head"])
    out = tmp_path / "verdicts.json"
    code = cli.main(["compare", *sides, "--suite", suite, "--filter", "made/breaks", "--out", str(out)])
    assert code == 1
    judgement = read_verdicts(out)
    words = {verdict.series.model: (verdict.verdict, verdict.why) for verdict in judgement.verdicts}
    reason = "failed: ZeroDivisionError: on purpose"
    assert words == {"made/breaks": ("broken", f"passes on base, but not on head: {reason}")}
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
        "import by absolute names what is installed or in a folder of PYTHONPATH"
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


@pytest.fixture
def before(checkout) -> object:
    """The state of the checkout before anything is called."""
    return checkout.state()


@pytest.fixture
def comparing(
    before, checkout, suite, tmp_path, torch_environment, temporary
) -> Iterator[subprocess.Popen[str]]:
    """A comparison whose first pair is measured."""
    process = subprocess.Popen(
        [
            *(
                sys.executable,
                "-m",
                "torchperf_ci",
                "compare",
                "--base",
                checkout.first,
                "--head",
                checkout.second,
            ),
            *("--repo", str(checkout.folder), "--python", str(torch_environment / "bin/python")),
            *("--suite", suite, "--filter", "made/runs", "--out", str(tmp_path / "verdicts.json")),
        ],
        env={**os.environ, "TMPDIR": str(temporary)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        said = [*takewhile(lambda line: "pair 1" not in line, iter(process.stderr.readline, ""))]
        assert any(line.startswith("1 case in pairs of processes on ") for line in said), said
        yield process


def test_sigterm_leaves_what_is_known_and_nothing_else(
    comparing, before, checkout, tmp_path, temporary
) -> None:
    workers = _workers_of(comparing.pid)
    comparing.send_signal(signal.SIGTERM)
    _, said = comparing.communicate(timeout=60)
    assert comparing.returncode == 143, said
    assert "stopped by SIGTERM; what was measured by then is in" in said
    judgement = read_verdicts(tmp_path / "verdicts.json")
    assert any(note.startswith("interrupted from outside") for note in judgement.notes)
    assert {verdict.verdict for verdict in judgement.verdicts} == {"noisy"}
    [latency] = [verdict for verdict in judgement.verdicts if verdict.series.metric == "latency(ms)"]
    assert latency.why.startswith("interrupted ")
    _wait_for_the_end_of(workers)
    assert list(temporary.iterdir()) == []
    assert checkout.state() == before


def test_what_a_kill_leaves_is_removed_later(comparing, temporary) -> None:
    workers = _workers_of(comparing.pid)
    comparing.kill()
    _wait_for_the_end_of([comparing.pid, *workers])
    assert list(temporary.iterdir()) != []
    deadline, left = time.monotonic() + 60, None
    while left != []:  # a worker that had only just been started holds its folder until it ends
        assert time.monotonic() < deadline, left
        with scratch_folder() as folder:
            left = [path for path in temporary.iterdir() if path != folder]


def _workers_of(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _wait_for_the_end_of(pids: list[int]) -> None:
    """A worker that had only just been started ends by itself when it finds nobody at the other end."""
    deadline = time.monotonic() + 60
    while any(_runs(pid) for pid in pids):
        assert time.monotonic() < deadline, pids
        time.sleep(0.05)


def _runs(pid: int) -> bool:
    status = Path(f"/proc/{pid}/stat")
    return status.exists() and status.read_text().rpartition(")")[2].split()[0] != "Z"


def test_a_repository_that_must_be_built_is_told_so(checkout, suite, git, torch_environment, capsys) -> None:
    """As PyTorch's own: the folder of its sources cannot be imported."""
    (checkout.folder / "torch").mkdir()
    (checkout.folder / "torch/__init__.py").write_text("import torch._C\n")
    git(checkout.folder, "add", "torch")
    git(checkout.folder, "commit", "--quiet", "--message", "Add sources")
    python = str(torch_environment / "bin/python")
    arguments = ("--base", "main", "--head", "main", "--repo", str(checkout.folder), "--python", python)
    assert cli.main(["compare", *arguments, "--suite", suite]) == 2
    assert "has to be built before it is imported, say how with --build" in capsys.readouterr().err


def test_a_build_without_torch_is_told_that_its_command_has_to_install_it(
    checkout, suite, quick, capsys
) -> None:
    arguments = ("--base", "main", "--head", "main", "--repo", str(checkout.folder), "--suite", suite)
    assert cli.main(["compare", *arguments, "--python", quick, "--build", "true"]) == 2
    assert (
        "only what --build or the wheel installs there, which has to include torch" in capsys.readouterr().err
    )


def test_a_suite_file_that_only_head_has_is_not_blamed_on_the_commit(
    checkout, torch_environment, capsys
) -> None:
    arguments = ("--base", "main", "--head", "main", "--repo", str(checkout.folder), "--suite", "new.py")
    assert cli.main(["compare", *arguments, "--python", str(torch_environment / "bin/python")]) == 2
    assert capsys.readouterr().err == (
        f"torchperf: error: there is no suite file {Path('new.py').absolute()}: "
        "it is read from here for all builds, not from a commit\n"
    )


@pytest.mark.parametrize("suite", [(), ("--suite", "quick,core"), ("--suite", "own")])
def test_commits_that_what_is_measured_does_not_depend_on_are_refused(
    checkout, suite, tmp_path, torch_environment, capsys
) -> None:
    """The suites of torchperf measure torch, which is the same on both sides: they would be told to be unchanged."""
    config = tmp_path / "torchperf.yml"
    config.write_text("suites: {own: {workloads: [core]}}\n")
    arguments = (
        "--base",
        "main~1",
        "--head",
        "main",
        "--repo",
        str(checkout.folder),
        "--config",
        str(config),
        "--python",
        str(torch_environment / "bin/python"),
    )
    assert cli.main(["compare", *arguments, *suite]) == 2
    *_, said = capsys.readouterr().err.splitlines()
    assert "nothing is measured that these commits could change" in said
    assert "with --suite, or say with --build" in said


def test_commits_of_a_library_are_compared_by_the_workloads_that_need_it(
    checkout, git, torch_environment, tmp_path
) -> None:
    package, out = checkout.folder / "src/diffusers", tmp_path / "verdicts.json"
    package.mkdir(parents=True)
    for model in ("1 / 0", "torch.nn.Linear(32, 32)"):
        (package / "__init__.py").write_text(f"""
import torch
class UNet1DModel(torch.nn.Module):
    def __init__(self, **_):
        super().__init__()
        self.layer = {model}
    def forward(self, sample, timestep):
        return self.layer(sample)
""")
        git(checkout.folder, "add", "src")
        git(checkout.folder, "commit", "--quiet", "--message", "Change the model")
    arguments = ["--base", "main~1", "--head", "main", "--repo", str(checkout.folder), "--out", str(out)]
    python = str(torch_environment / "bin/python")
    cli.main(["compare", *arguments, "--python", python, "--suite", "reinforcement/diffusers_planner"])
    assert "fixed" in {verdict.verdict for verdict in read_verdicts(out).verdicts}


def test_a_suite_that_a_revision_cannot_load_is_told_with_its_side(
    checkout, tmp_path, torch_environment, capsys
) -> None:
    suite = tmp_path / "suite.py"
    suite.write_text("from colour import NAME, SHADE\n")
    arguments = ("--base", "main", "--head", "main", "--repo", str(checkout.folder), "--suite", str(suite))
    assert cli.main(["compare", *arguments, "--python", str(torch_environment / "bin/python")]) == 2
    said = capsys.readouterr().err
    assert f"--head {checkout.second[:10]} Say blue: {suite}" in said
    assert "SHADE" in said


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "nothing to compare: give a Python, a wheel, a revision or a directory of records with --base"),
        (["--base", "x"], "with --head"),
        (["--base", "records", "--head", sys.executable], "--base records contains records"),
        (["--base", "records", "--head", "recrods"], "--head recrods is no directory that contains some"),
        (["--base", "nonsense", "--head", "nonsense"], "'nonsense' is not a file that can be run"),
        (
            ["--base", "/bin/false", "--head", "/bin/false"],
            "--head /bin/false: the worker exited with code 1",
        ),
        (["--base", "x", "--head", "x", "--min-effect", "3"], "--min-effect cannot be '3'"),
    ],
)
def test_a_call_that_makes_no_sense_is_told(tmp_path, monkeypatch, capsys, arguments, message) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "records").mkdir()
    (tmp_path / "records/one.json").write_text("[]")
    assert cli.main(["compare", *arguments]) == 2
    assert message in capsys.readouterr().err


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


def test_directories_that_are_called_like_commits_do_not_stand_for_them(
    checkout, git, tmp_path, torch_environment, monkeypatch, capsys
) -> None:
    """A pull request may add both, with the records that it likes."""
    monkeypatch.chdir(checkout.folder)
    git(checkout.folder, "branch", "feature", checkout.first)
    for name in (checkout.first, "feature"):
        (checkout.folder / name).mkdir()
        (checkout.folder / name / "records.json").write_text("[]")
    out = ("--out", str(tmp_path / "verdicts.json"))
    python = ("--python", str(torch_environment / "bin/python"))
    assert cli.main(["compare", "--base", checkout.first, "--head", "feature", *out, *python]) == 2
    assert "nothing is measured that these commits could change" in capsys.readouterr().err
    assert cli.main(["compare", "--base", f"./{checkout.first}", "--head", "./feature", *out]) == 2
    assert "holds no records" in capsys.readouterr().err
