"""The test repository for bisections has the slowdowns that it claims, so that results can be checked against them."""

from __future__ import annotations

import ast
import re
import sys
from itertools import permutations
from types import ModuleType
from typing import TYPE_CHECKING

import planted_changes
import pytest
import torch
from slowed_repository import MODEL, SOURCES, Repository, make_repository

from torchperf_ci.bench.case import Settings
from torchperf_ci.bench.selection import describe_environment

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from pathlib import Path

    Git = Callable[..., str]

COMMITS = 72
CHANGES = {
    10: planted_changes.sync(every=2),
    20: planted_changes.faster(),
    31: planted_changes.copy(),
    32: planted_changes.Revert(),
    50: planted_changes.validation(),
}
UNBUILDABLE = (32, 33, 60)
MERGES = (9, 20, 40)
KINDS = {
    "sync": planted_changes.sync(),
    "lost_fusion": planted_changes.lost_fusion(),
    "validation": planted_changes.validation(times=2),
    "quadratic": planted_changes.quadratic(),
    "copy": planted_changes.copy(),
    "faster": planted_changes.faster(),
}


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    folder = tmp_path_factory.mktemp("smallnet")
    return make_repository(folder, CHANGES, COMMITS, UNBUILDABLE, MERGES)


def test_it_is_a_checkout_of_the_last_commit_after_a_whole_history(repository: Repository, git: Git) -> None:
    assert len(repository.shas) == COMMITS + 1
    assert git(repository.path, "fsck", "--strict", "--no-progress") == ""
    assert git(repository.path, "status", "--porcelain") == ""
    assert git(repository.path, "rev-parse", "HEAD").strip() == repository.sha(COMMITS)
    assert git(repository.path, "rev-list", "--max-parents=0", "HEAD").strip() == repository.sha(0)


def test_the_same_arguments_give_the_same_hashes_wherever_it_is_made(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_DIR", str(repository.path / ".git"))
    again = make_repository(tmp_path / "again", CHANGES, COMMITS, UNBUILDABLE, MERGES)
    assert again.shas == repository.shas
    assert (again.path / ".git").is_dir()


def test_every_commit_after_the_good_one_has_a_subject_of_its_own_that_names_a_pull_request(
    repository: Repository, git: Git
) -> None:
    subjects = git(repository.path, "log", "--first-parent", "--format=%s").splitlines()[:-1]
    assert len({*subjects}) == COMMITS
    for subject in subjects:
        assert re.fullmatch(r"[A-Z].* \(#\d+\)|Merge pull request #\d+ from \S+", subject)


def test_the_model_changes_where_it_was_said_and_nowhere_else(repository: Repository, git: Git) -> None:
    changing = git(repository.path, "log", "--first-parent", "-m", "--format=%H", "--", MODEL).split()
    assert [*reversed(changing)] == [repository.sha(position) for position in (0, *CHANGES)]


def test_a_revert_is_called_one_and_gives_the_model_back(repository: Repository, git: Git) -> None:
    before, edited, reverted = (
        git(repository.path, "show", f"{repository.sha(position)}:{MODEL}") for position in (30, 31, 32)
    )
    assert before == reverted != edited
    subjects = [
        git(repository.path, "log", "-1", "--format=%s", repository.sha(position)).strip()
        for position in (31, 32)
    ]
    assert subjects[1] == f'Revert "{subjects[0]}" (#496)'


def test_the_package_is_broken_where_it_was_said_and_nowhere_else(repository: Repository, git: Git) -> None:
    sources = [_sources(repository.path, sha, git) for sha in repository.shas]
    blobs = {blob for files in sources for blob in files.values()}
    unreadable = {blob for blob in blobs if not _compiles(git(repository.path, "cat-file", "blob", blob))}
    broken = [
        (position, path)
        for position, files in enumerate(sources)
        for path, blob in files.items()
        if blob in unreadable
    ]
    assert broken == [(position, "smallnet/__init__.py") for position in UNBUILDABLE]


def _sources(folder: Path, sha: str, git: Git) -> dict[str, str]:
    """The blobs of the Python files at a commit, by their paths."""
    rows = [line.split() for line in git(folder, "ls-tree", "-r", sha).splitlines()]
    return {path: blob for _, _, blob, path in rows if path.endswith(".py")}


def _compiles(source: str) -> bool:
    try:
        compile(source, "source", "exec")
    except SyntaxError:
        return False
    return True


def test_merges_bring_in_three_commits_of_which_the_second_has_the_change(
    repository: Repository, git: Git
) -> None:
    merges = git(repository.path, "rev-list", "--merges", "--reverse", "HEAD").split()
    assert merges == [repository.sha(position) for position in MERGES]
    for position in MERGES:
        merge = repository.sha(position)
        brought_in = git(repository.path, "rev-list", "--reverse", f"{merge}^1..{merge}^2").split()
        assert len(brought_in) == 3
        assert git(repository.path, "diff", f"{merge}^2", merge) == ""
        changing = git(repository.path, "rev-list", f"{merge}^1..{merge}^2", "--", MODEL).split()
        assert changing == ([brought_in[1]] if position in CHANGES else [])


@pytest.mark.parametrize("kind", KINDS)
def test_a_change_of_speed_leaves_what_is_computed_as_it_is(kind: str, tmp_path: Path, git: Git) -> None:
    repository = make_repository(tmp_path, {2: KINDS[kind]}, commits=2)
    before, after = (
        _scores(git(tmp_path, "show", f"{repository.sha(position)}:{MODEL}")) for position in (1, 2)
    )
    torch.testing.assert_close(after, before)


def _scores(source: str) -> torch.Tensor:
    module = ModuleType("model")
    exec(source, module.__dict__)
    torch.manual_seed(0)
    model, words = module.Classifier().double().eval(), torch.randint(module.WORDS, (128, 16))
    with torch.no_grad():
        return model(words)


def test_edits_fit_one_another_in_any_order() -> None:
    texts = set()
    for edits in permutations(KINDS.values()):
        text = (SOURCES / MODEL).read_text()
        for edit in edits:
            text = edit.applied_to(text)
        texts.add(text)
    assert [_compiles(text) for text in texts] == [True]


def test_its_workloads_can_be_measured(repository: Repository, torch_environment: Path) -> None:
    python, suite = str(torch_environment / "bin/python"), str(repository.suite)
    settings = Settings(python, "cpu", (suite,), (str(repository.path),), timeout=60)
    known = {name for name in describe_environment(settings).known.workloads if name.startswith("smallnet/")}
    assert known == {"smallnet/classifier", "smallnet/bags", "smallnet/blocks"}


@pytest.mark.parametrize(
    ("changes", "unbuildable", "message"),
    [
        ({4: KINDS["copy"]}, (), "from 1 to 3"),
        ({}, (0,), "from 1 to 3"),
        ({1: planted_changes.Revert()}, (), "no edit to revert"),
        ({1: KINDS["faster"], 2: KINDS["faster"]}, (), "PyTorch's own GELU"),
    ],
)
def test_a_history_that_cannot_be_is_refused(
    changes: dict[int, planted_changes.Change], unbuildable: Collection[int], message: str, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=message):
        make_repository(tmp_path / "none", changes, commits=3, unbuildable=unbuildable)


def test_making_it_needs_the_standard_library_alone() -> None:
    files = [*SOURCES.parent.glob("*.py")]
    ours = {path.stem for path in files}
    for path in files:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [str(node.module)]
            else:
                continue
            assert all(name.split(".")[0] in {*ours, *sys.stdlib_module_names} for name in names), path
