"""The command on two commits of a repository."""

from __future__ import annotations

import functools
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING
from unittest.mock import Mock

import pytest

from torchperf_ci import cli
from torchperf_ci.bench import selection
from torchperf_ci.compare.compared_builds import are_compiled_anew
from torchperf_ci.verdicts.verdict import read_verdicts

if TYPE_CHECKING:
    from torchperf_ci.bench.case import Settings
    from torchperf_ci.bench.worker.protocol import EnvironmentUnderTest

_describe = functools.cache(selection.describe_environment)


@pytest.fixture
def built_in_suites(monkeypatch) -> None:
    """Both sides, and all tests, have the same ones, and nothing of the commits: they are asked for once."""

    def describe(settings: Settings, *flag: str) -> EnvironmentUnderTest:
        assert not settings.files
        return _describe(replace(settings, path=()), *flag)

    monkeypatch.setattr(selection, "describe_environment", describe)


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
        f"torchperf: error: there is no suite file {Path('new.py').absolute()} on this machine, "
        "where it has to be even to measure other commits\n"
    )


@pytest.mark.usefixtures("built_in_suites")
@pytest.mark.parametrize("suite", [(), ("--suite", "quick,core")])
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


@pytest.mark.parametrize(
    ("base", "head", "anew"),
    [
        ((), (), False),
        (("texts", "libraries"), ("other texts", "libraries"), False),
        (("texts", "libraries"), ("texts", "other libraries"), True),
        (("texts", "libraries"), (), True),
    ],
)
def test_builds_differ_by_luck_where_more_than_their_texts_do(base, head, anew) -> None:
    assert are_compiled_anew(Mock(contents=base), Mock(contents=head)) is anew


@pytest.mark.usefixtures("built_in_suites")
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


@pytest.mark.usefixtures("built_in_suites")
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
