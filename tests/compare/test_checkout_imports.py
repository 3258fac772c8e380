"""A suite that imports the checkout's code instead of the commits' would find every commit unchanged.

Real workers import the suite on either side. What is told of that needs no pair, so none is measured.
"""

from __future__ import annotations

import pytest

from torchperf_ci import cli
from torchperf_ci.bench import selection
from torchperf_ci.compare import command
from torchperf_ci.verdicts.verdict import read_verdicts

SUITE = """
import sys
import torch
from torchperf_ci.suite import Task, workload

{path}
import colour, helper

work = workload("made/work", "a sum", modes=("inference",))(lambda batch: Task(torch.sin, (torch.ones(4),)))
"""


@pytest.fixture
def compare(checkout, torch_environment, tmp_path, capsys, monkeypatch):
    """Compare the two commits by a suite in the checkout, and return the exit code and what was said."""
    monkeypatch.setattr(command, "measure_rounds", lambda *_: None)

    def called(path: str, *more: str, python: str = f"{torch_environment}/bin/python") -> tuple[int, str]:
        suite = checkout.folder / "benchmarks/suite.py"
        suite.parent.mkdir()
        (suite.parent / "helper.py").touch()
        suite.write_text(SUITE.format(path=f"sys.path.append({str(suite.parent)!r}); {path}"))
        arguments = ["--base", "main~1", "--head", "main", "--repo", str(suite.parent), "--suite", str(suite)]
        out = str(tmp_path / "verdicts.json")
        code = cli.main(["compare", *arguments, "--python", python, "--out", out, *more])
        return code, capsys.readouterr().err

    return called


@pytest.mark.parametrize("how", ["a build that installs elsewhere", "the suite"])
def test_code_of_the_checkout_is_refused(how, compare, checkout, torch_environment, quick) -> None:
    [packages] = torch_environment.glob("lib/python*/site-packages")
    folder = "$(python -c 'import site; print(site.getsitepackages()[0])')"
    build = f"echo {packages} > {folder}/torch.pth"
    add = f"sys.path.%s{str(checkout.folder)!r})"
    if how == "the suite":
        code, said = compare(add % "insert(0, ")
    else:
        code, said = compare(add % "append(", "--build", build, python=quick)
    assert code == 2
    assert f"--head {checkout.second[:10]} Say blue: the suite imports {checkout.folder}/colour.py" in said
    assert "helper" not in said


def test_a_worktree_below_the_checkout_is_the_commit(compare, checkout, monkeypatch) -> None:
    below = checkout.folder / "tmp"
    below.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(below))
    code, said = compare(f"sys.path.append({str(checkout.folder)!r})")
    assert (code, "the suite imports" in said) == (5, False)


@pytest.mark.parametrize("told", [True, False])
def test_what_is_not_measured_is_told(compare, checkout, git, tmp_path, monkeypatch, told) -> None:
    """Changes that are in no commit, and changed sources that nobody compiles; of these, base is as head is."""
    describe, answers = selection.describe_environment, []

    def described(*side):
        answers.extend([] if answers else [describe(*side)])
        return answers[0]

    monkeypatch.setattr(selection, "describe_environment", described)
    if not told:
        git(checkout.folder, "reset", "--quiet", "--hard")
    for text in ("1", "2"):
        file = checkout.folder / ("csrc/kernel.c" if told else "README.md")
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
        git(checkout.folder, "add", str(file))
        git(checkout.folder, "commit", "--quiet", "--message", text)
    code, said = compare("")
    uncommitted = (
        f"⚠ the checkout {checkout.folder}/benchmarks has uncommitted changes, which are not measured"
    )
    uncompiled = "⚠ csrc/kernel.c changed, and no --build compiles it"
    notes = read_verdicts(tmp_path / "verdicts.json").notes
    assert (code, uncommitted in said, "no --build compiles it" in said) == (5, told, told)
    assert any(one.startswith(uncompiled) for one in notes) is told
