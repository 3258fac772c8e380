"""A culprit that moves a submodule says from which commit to which."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from torchperf_ci.bisect.commits import submodule_notes

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def library(tmp_path: Path, git, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", "protocol.file.allow")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", "always")
    folder = tmp_path / "library"
    folder.mkdir()
    git(folder, "init", "--quiet", "--initial-branch=main")
    commit(git, folder, "First")
    return folder


def commit(git, folder: Path, message: str) -> str:
    git(folder, "commit", "--quiet", "--allow-empty", "--message", message)
    return git(folder, "rev-parse", "HEAD").strip()


@pytest.fixture
def bump(history, library: Path, git) -> str:
    """A commit that moves the submodule over two commits."""
    history.git("submodule", "--quiet", "add", library.as_uri(), "lib rary")
    history.commit("Add the library")
    commit(git, library, "Slow | the <loop>")
    commit(git, library, "Docs")
    git(history.folder / "lib rary", "pull", "--quiet")
    return history.commit("Bump")


def test_the_submodule_and_both_of_its_commits_are_named(bump: str, history, git, library: Path) -> None:
    new, _, old = git(library, "log", "--format=%H").split()
    note = f"{bump[:10]} moves the submodule lib rary from {old[:10]} to {new[:10]}"
    assert submodule_notes(history.folder, f"{bump}~", bump) == (note,)


def test_other_commits_have_no_note(bump: str, history) -> None:
    assert submodule_notes(history.folder, bump, history.commit("Else")) == ()
    assert submodule_notes(history.folder, bump, "0" * 40) == ()


def test_a_merge_of_good_moves_what_differs_from_good(bump: str, history) -> None:
    """The commit before it in the range is its second parent."""
    history.start("fork", f"{bump}~")
    history.git("commit", "--quiet", "--allow-empty", "--message", "Good")
    good = history.git("rev-parse", "HEAD")
    history.go_to("main")
    merge = history.merge("fork")
    (note,) = submodule_notes(history.folder, good, merge)
    assert note.startswith(f"{merge[:10]} moves the submodule lib rary from")


def test_a_culprit_that_moves_a_submodule_has_the_note(history, library: Path, git, bisect) -> None:
    (library / "cost").write_text("1000")
    git(library, "add", "cost")
    commit(git, library, "Cost")
    history.git("submodule", "--quiet", "add", library.as_uri(), "lib")
    history.git("submodule", "--quiet", "update", "--init")
    good = history.commit("Add the library")
    (library / "cost").write_text("1200")
    git(library, "add", "cost")
    commit(git, library, "Slow down")
    git(history.folder / "lib", "pull", "--quiet")
    bad = history.commit("Bump")
    found = bisect("--good", good, "--bad", bad, command="cat {worktree}/lib/cost")
    assert [one.commit for one in found.culprits] == [bad]
    moved = f"{bad[:10]} moves the submodule lib from"
    assert any(moved in note for note in found.notes)
    bisect.state.unlink()
    repair = history.commit("Repair")
    found = bisect("--good", good, "--bad", repair, command=f"[ $SHA != {bad} ] && cat lib/cost")
    assert [one.set for one in found.culprits] == [(bad, repair)]
    assert any(moved in note for note in found.notes), "also where it is one of several"
    bisect.state.unlink()
    history.git("submodule", "--quiet", "deinit", "--force", "--all")
    shutil.rmtree(history.folder / ".git" / "modules")
    missed = bisect("--good", good, "--bad", bad, command="cat lib/cost || echo 1000 #")
    assert missed.status == "not-reproduced"
    assert "commits have submodules only if your checkout has them" in missed.why
