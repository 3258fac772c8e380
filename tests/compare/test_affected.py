"""What ``--affected`` leaves out, and what it never does."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING
from unittest.mock import Mock

import pytest
from made_points import series

from torchperf_ci import cli
from torchperf_ci.bench.case import Case, Settings
from torchperf_ci.bench.worker.protocol import TorchEnvironment
from torchperf_ci.compare import affected, command
from torchperf_ci.compare.affected import (
    AffectedCases,
    FilesRead,
    affected_cases,
    tree_change,
    unbuilt_devices,
    why_affected,
)
from torchperf_ci.environments.revisions import Revision
from torchperf_ci.errors import UsageError
from torchperf_ci.machine.devices.interface import UNKNOWN_GPU
from torchperf_ci.stats.build_variance import most_luck
from torchperf_ci.stats.sequential_test import ALPHA
from torchperf_ci.verdicts.verdict import Verdict, read_verdicts

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from torchperf_ci.compare.compared_case import Comparison

    Git = Callable[..., str]

SUITE = """
import torch
from torchperf_ci.suite import Task, workload


def part(name):
    def model(x):
        return __import__(f"parts.{name}", fromlist=["run"]).run(x)

    def build(batch):
        return Task(model, (torch.ones(64, 64),))

    return workload(f"parts/{name}", "a part", modes=("inference",))(build)


fast, other = part("fast"), part("other")
"""

KERNEL = "aten/src/ATen/native/cpu/CopyKernel.cpp"
PYTORCH = {
    KERNEL: "namespace { void copy_kernel(int n) {} }\nREGISTER_DISPATCH(copy_stub, &copy_kernel);",
    "aten/src/ATen/native/Copy.cpp": "Tensor& copy_(Tensor& self) { copy_stub(self); return self; }",
    "aten/src/ATen/native/native_functions.yaml": "- func: copy_(Tensor(a!) self) -> Tensor(a!)",
    "aten/src/ATen/core/dispatch/ObservedOperators.cpp": "",
}


def commit(git: Git, folder: Path) -> str:
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "A change")
    return git(folder, "rev-parse", "HEAD").strip()


@pytest.fixture
def repo(tmp_path: Path, git: Git) -> Path:
    """Two modules that a suite outside of it imports when they are called, and files of other kinds."""
    folder = tmp_path / "repo"
    (folder / "parts").mkdir(parents=True)
    git(folder, "init", "--quiet", "--initial-branch=main")
    for name in ("fast", "other"):
        (folder / f"parts/{name}.py").write_text("def run(x):\n    return x + 1\n")
    for name in ("parts/__init__.py", "moved.py", "gone.py", "kind.py", "mode.py", "config.json", "notes.md"):
        (folder / name).write_text("# nothing\n")
    (tmp_path / "suite.py").write_text(SUITE)
    return folder


def test_only_python_and_text_whose_content_alone_changes_can_be_followed(repo: Path, git: Git) -> None:
    base = commit(git, repo)
    for name in ("parts/fast.py", "config.json", "notes.md", "new é.py"):
        (repo / name).write_text("# another\n")
    (repo / "moved.py").rename(repo / "moved_here.py")
    (repo / "gone.py").unlink()
    (repo / "kind.py").unlink()
    (repo / "kind.py").symlink_to("parts/fast.py")
    (repo / "mode.py").chmod(0o755)
    git(repo, "config", "diff.relative", "true")
    at = repo / "parts"
    change = tree_change(Revision(at, base, ""), Revision(at, commit(git, repo), ""))
    assert change.followed == ("notes.md", "parts/fast.py")
    unknown = {"config.json", "gone.py", "kind.py", "mode.py", "moved.py", "moved_here.py", "new é.py"}
    assert {
        why.rpartition(".")[0] + "." + why.rpartition(".")[2].split()[0] for why in change.unknown
    } == unknown


@pytest.mark.parametrize(
    "read",
    [
        FilesRead(frozenset({"/tree/parts/fast.py"})),
        FilesRead(frozenset({"/Tree/Parts/FAST.py"})),
        FilesRead(frozenset({"somewhere/fast.py"})),
        FilesRead(frozenset({"/checkout/parts/fast.py"})),
        FilesRead(frozenset(), unknown=("it starts sh",)),
        FilesRead(frozenset(), startup=frozenset({"/tree/sitecustomize.py"})),
    ],
    ids=["read", "other letters", "from an unknown folder", "in the checkout", "unknown", "startup"],
)
def test_what_may_have_read_a_file_is_affected(read: FilesRead) -> None:
    assert why_affected(read, ["parts/fast.py"], [Path("/tree"), Path("/checkout")])


def test_what_read_others_is_not(tmp_path: Path) -> None:
    read = FilesRead(
        frozenset({"/tree/parts/slow.py", "/elsewhere/parts/fast.py"}), frozenset({"/usr/site.py"})
    )
    assert not why_affected(read, ["parts/fast.py"], [Path("/tree"), tmp_path])


def compare(
    repo: Path, python: str, base: str, head: str, *more: str
) -> tuple[Mapping[tuple[str, str], tuple[str, str]], list[str]]:
    """Verdict and reason by workload and metric, and the notes."""
    suite, out = repo.parent / "suite.py", repo.parent / "verdicts.json"
    sides = (
        "--base",
        base,
        "--head",
        head,
        "--repo",
        str(repo),
        "--python",
        python,
    )
    cli.main(["compare", "--affected", *sides, *more, "--suite", str(suite), "--out", str(out)])
    judgement = read_verdicts(out)
    found = {(one.series.model, one.series.metric): (one.verdict, one.why) for one in judgement.verdicts}
    return found, [*judgement.notes]


def test_what_imports_a_changed_file_late_is_measured_and_the_rest_is_not(
    repo: Path,
    git: Git,
    torch_environment: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    measured: list[str] = []

    def measure_rounds(comparison: Comparison, *_: object) -> None:
        measured.extend(compared.case.workload for compared in comparison.cases)

    monkeypatch.setattr(command, "measure_rounds", measure_rounds)
    base = commit(git, repo)
    (repo / "parts/fast.py").write_text("def run(x):\n    return sum(x + n for n in range(30))\n")
    verdicts, notes = compare(repo, f"{torch_environment}/bin/python", base, commit(git, repo))
    assert measured == ["parts/fast"]
    assert verdicts["parts/fast", "latency(ms)"][0] == "noisy"
    word, why = verdicts["parts/other", "latency(ms)"]
    assert (word, why) == ("not-affected", "on base, it reads none of the changed files: parts/fast.py")
    assert notes[0] == f"1 case not measured: {why}"
    assert "1 not affected and not measured" in capsys.readouterr().err


@pytest.mark.parametrize("built", [False, True])
def test_without_a_case_on_both_sides_no_file_is_looked_at(repo: Path, git: Git, built: bool) -> None:
    shas = [commit(git, repo)]
    (repo / "parts/fast.py").write_text("def run(x):\n    return x\n")
    shas.append(commit(git, repo))
    base, head = (Mock(settings=Settings("", "cpu")) for _ in shas)
    base.spec, head.spec = (Revision(repo, sha, "") for sha in shas)
    assert affected_cases([], base, head, Mock(), repo, built=built) == AffectedCases([])


def test_a_case_whose_batch_size_is_yet_to_be_found_is_measured(repo: Path, git: Git) -> None:
    """It may read other files for a larger batch than the one that it would be traced with."""
    shas = [commit(git, repo)]
    (repo / "parts/fast.py").write_text("def run(x):\n    return x\n")
    shas.append(commit(git, repo))
    base, head = (Mock(settings=Settings("", "cpu", path=("/tree",))) for _ in shas)
    base.spec, head.spec = (Revision(repo, sha, "") for sha in shas)
    cases = [Case("parts/other", "inference", "fp32", "eager", 0)]
    assert affected_cases(cases, base, head, Mock(), repo, built=False) == AffectedCases(cases, [])


def test_if_nothing_is_affected_it_is_said_what_was_looked_at() -> None:
    left_out = [Verdict(series(model=model), "not-affected", "it reads none") for model in "ab"]
    told = "nothing is measured in pairs: of 2 cases traced on base, none is affected"
    assert command._plan_text(AffectedCases([], left_out), 60) == told
    assert command._plan_text(AffectedCases([]), 60).endswith("no case is on both sides")


def test_of_a_build_of_pytorch_what_runs_a_changed_operator_is_measured(
    tmp_path: Path, git: Git, torch_environment: Path, quick: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of ``fast`` it is called by another operator, where Python does not see it."""
    repo = tmp_path / "repo"
    for name, text in PYTORCH.items():
        (repo / name).parent.mkdir(parents=True, exist_ok=True)
        (repo / name).write_text(text)
    git(repo, "init", "--quiet", "--initial-branch=main")
    steps = {"fast": "lambda x: x.double()", "other": "lambda x: x.sin()"}
    lines = [
        f"{name} = workload('parts/{name}', 'a part', modes=('inference',))"
        f"(lambda batch: Task({step}, (torch.ones(4, 4),)))"
        for name, step in steps.items()
    ]
    head = "import torch\nfrom torchperf_ci.suite import Task, workload\n"
    (tmp_path / "suite.py").write_text(head + "\n".join(lines))
    measured: list[Comparison] = []

    def measure_rounds(comparison: Comparison, *_: object) -> None:
        measured.append(comparison)

    monkeypatch.setattr(command, "measure_rounds", measure_rounds)
    base = commit(git, repo)
    (repo / KERNEL).write_text(PYTORCH[KERNEL] + "\n")
    [packages] = torch_environment.glob("lib/python*/site-packages")
    build = (
        "cd $(python -c 'import site; print(site.getsitepackages()[0])') && "
        f"echo {packages} > torch.pth && cp {{worktree}}/{KERNEL} kernel.so"
    )
    verdicts, _ = compare(repo, quick, base, commit(git, repo), "--build", build)
    [comparison] = measured
    assert [compared.case.workload for compared in comparison.cases] == ["parts/fast"]
    assert comparison.luck == most_luck(ALPHA)
    word, why = verdicts["parts/other", "latency(ms)"]
    assert (word, why) == (
        "not-affected",
        "on base, it runs none of the operators whose sources changed: copy_",
    )


@pytest.mark.parametrize(
    ("changed", "why"), [("torch/nn/linear.py", "reads torch/nn/linear.py"), ("near.py", ""), ("nn.py", "")]
)
def test_of_a_build_of_pytorch_what_reads_a_changed_file_is_measured_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changed: str, why: str
) -> None:
    read = FilesRead(frozenset({"/env/lib/torch/nn/linear.py"}), operators=frozenset({"mm"}))
    monkeypatch.setattr(affected, "files_read", lambda *_, **__: read)
    case = Case("parts/fast", "inference", "fp32", "eager", 1)
    operators = affected.ChangedOperators(frozenset({"copy_"}), [changed])
    assert operators.by(case, Settings("", "cpu"), tmp_path) == why


def test_records_and_wheels_have_no_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """This is said before a wheel is installed."""
    (tmp_path / "records.json").write_text("[]")
    for base, head in ((str(tmp_path),) * 2, ("torch==2.12.0", "torch==2.13.0")):
        argv = ("compare", "--base", base, "--head", head, "--affected", "--python", "/no/python")
        assert cli.main([*argv]) == UsageError("").exit_code
        assert "--affected looks at what two commits differ in" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("observed", "hip", "unbuilt"),
    [
        ({}, False, {"cuda", "cudnn", "miopen", "hip"}),
        ({"cuda": "13.0", "cudnn": "91900"}, False, {"miopen", "hip"}),
        ({"hip": "7.0"}, True, {"cudnn"}),
    ],
)
def test_sources_of_devices_that_a_build_has_not_do_not_count(
    observed: dict[str, str], hip: bool, unbuilt: set[str]
) -> None:
    environment = TorchEnvironment("cpu", hip, UNKNOWN_GPU, "2.13.0", "", {}, observed, {})
    assert {*unbuilt_devices(environment)} - {"mps"} == unbuilt
