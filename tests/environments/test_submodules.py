from __future__ import annotations

import shutil
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from torchperf_ci.environments.build_environment import Builder, open_environment
from torchperf_ci.environments.revisions import Revision
from torchperf_ci.errors import EnvironmentUnderTestError

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def library(tmp_path, git, monkeypatch) -> Path:
    """A repository with a submodule that has one itself; it may be fetched from the disk, and hooks would tell."""
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", "protocol.file.allow")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", "always")
    inner = repository(git, tmp_path / "inner")
    outer = repository(git, tmp_path / "outer")
    git(outer, "submodule", "--quiet", "add", "--name", "the inner one", inner.as_uri(), "deep/inner")
    git(outer, "commit", "--quiet", "--message", "Add inner")
    return outer


@pytest.fixture
def hooked(tmp_path, monkeypatch) -> Path:
    """What the user's hooks would write, which every new repository gets."""
    hook, mark = tmp_path / "template/hooks/post-checkout", tmp_path / "hooked"
    hook.parent.mkdir(parents=True)
    hook.write_text(f"#!/bin/sh\ntouch {mark}\n")
    hook.chmod(0o755)
    monkeypatch.setenv("GIT_TEMPLATE_DIR", str(tmp_path / "template"))
    return mark


def repository(git, folder: Path) -> Path:
    folder.mkdir()
    git(folder, "init", "--quiet", "--initial-branch=main")
    (folder / "name.txt").write_text(f"{folder.name} 1")
    git(folder, "add", "name.txt")
    git(folder, "commit", "--quiet", "--message", "First")
    return folder


def add(git, checkout, library: Path) -> Revision:
    """A commit of the checkout that has the library as it is now."""
    git(checkout.folder, "reset", "--quiet", "--hard")
    git(checkout.folder, "submodule", "--quiet", "add", library.as_uri(), "lib rary")
    git(checkout.folder, "submodule", "--quiet", "update", "--init", "--recursive")
    git(checkout.folder, "commit", "--quiet", "--message", "Add a library")
    (checkout.folder.parent / "hooked").unlink()
    return Revision(checkout.folder, git(checkout.folder, "rev-parse", "HEAD").strip(), "")


def names(tree: Path) -> list[str]:
    return sorted(file.read_text() for file in tree.rglob("name.txt"))


def test_the_submodules_of_the_commit_are_there_and_leave_no_trace(
    checkout, temporary, library, git, hooked
) -> None:
    then = add(git, checkout, library)
    (library / "name.txt").write_text("outer 2")
    git(library, "commit", "--quiet", "--all", "--message", "Second")
    git(checkout.folder / "lib rary", "pull", "--quiet", "origin", "main")
    (checkout.folder / "lib rary/name.txt").write_text("changed")
    git(checkout.folder, "config", "--remove-section", "submodule.lib rary")
    hooked.unlink(missing_ok=True)
    before = checkout.state()
    with open_environment(then, Builder("python")) as environment:
        assert names(environment.worktree) == ["inner 1", "outer 1"]
    assert checkout.state() == before
    assert (checkout.folder / "lib rary/name.txt").read_text() == "changed"
    assert not hooked.exists()
    assert list(temporary.iterdir()) == []


def test_what_the_checkout_has_is_not_fetched_again(checkout, temporary, library, git) -> None:
    revision = add(git, checkout, library)
    with open_environment(revision, Builder("python")) as environment:
        for path in ("lib rary", "lib rary/deep/inner"):
            counts = git(environment.worktree / path, "count-objects", "--verbose")
            assert "count: 0\n" in counts
            assert "in-pack: 0\n" in counts


def test_what_the_checkout_has_needs_no_network(checkout, temporary, library, git, monkeypatch) -> None:
    revision = add(git, checkout, library)
    monkeypatch.setenv("GIT_CONFIG_COUNT", "0")  # to clone from the disk is forbidden, as by default
    for one in (library, library.with_name("inner")):
        one.rename(one.with_name(f"{one.name} moved"))
    before = checkout.state()
    with open_environment(revision, Builder("python")) as environment:
        assert names(environment.worktree) == ["inner 1", "outer 1"]
        origin = git(environment.worktree / "lib rary", "config", "remote.origin.url").strip()
    assert origin == library.as_uri()
    assert checkout.state() == before


def test_a_linked_worktree_may_be_the_only_checkout_that_has_them(checkout, temporary, library, git) -> None:
    revision, linked = add(git, checkout, library), checkout.folder.parent / "linked"
    git(checkout.folder, "worktree", "add", "--quiet", "--detach", str(linked))
    git(linked, "submodule", "--quiet", "update", "--init", "--recursive")
    shutil.rmtree(checkout.folder / ".git/modules")
    with open_environment(replace(revision, repo=linked), Builder("python")) as environment:
        assert names(environment.worktree) == ["inner 1", "outer 1"]


def test_one_that_the_checkout_has_only_in_part_is_fetched(checkout, temporary, library, git) -> None:
    revision = add(git, checkout, library)
    modules = checkout.folder / ".git/modules/lib rary"
    (modules / "shallow").write_text(git(library, "rev-parse", "HEAD"))
    with open_environment(revision, Builder("python")) as environment:
        assert names(environment.worktree) == ["inner 1", "outer 1"]


def test_one_that_the_checkout_has_without_its_files_is_fetched(checkout, temporary, library, git) -> None:
    revision = add(git, checkout, library)
    git(library, "config", "uploadpack.allowFilter", "true")
    partial, modules = library.with_name("partial"), checkout.folder / ".git/modules/lib rary"
    git(library, "clone", "--quiet", "--bare", "--filter=blob:none", library.as_uri(), str(partial))
    shutil.rmtree(modules / "objects")
    (partial / "objects").rename(modules / "objects")
    with open_environment(revision, Builder("python")) as environment:
        assert names(environment.worktree) == ["inner 1", "outer 1"]


def test_one_that_cannot_be_had_makes_the_commit_unbuildable(checkout, temporary, library, git) -> None:
    add(git, checkout, library)
    git(library, "commit", "--quiet", "--allow-empty", "--message", "One that the checkout does not have")
    newer = git(library, "rev-parse", "HEAD").strip()
    git(checkout.folder, "update-index", "--cacheinfo", f"160000,{newer},lib rary")
    git(checkout.folder, "commit", "--quiet", "--message", "Move the library")
    revision = Revision(checkout.folder, git(checkout.folder, "rev-parse", "HEAD").strip(), "")
    library.rename(library.with_name("moved"))
    before = checkout.state()
    with (
        pytest.raises(EnvironmentUnderTestError, match="cannot be checked out: git submodule ended with"),
        open_environment(revision, Builder("python")),
    ):
        pass
    assert checkout.state() == before
    assert list(temporary.iterdir()) == []


def test_a_checkout_without_its_submodules_is_built_without_them(checkout, temporary, library, git) -> None:
    revision = add(git, checkout, library)
    git(checkout.folder, "submodule", "--quiet", "deinit", "--all", "--force")
    (checkout.folder / ".git/modules").rename(checkout.folder.parent / "modules")
    with open_environment(revision, Builder("python")) as environment:
        assert names(environment.worktree) == []


def test_commits_without_a_known_origin_or_without_submodules_are_as_they_are(
    checkout, temporary, library, git
) -> None:
    add(git, checkout, library)
    git(checkout.folder, "clone", "--quiet", str(library), "stray")
    git(checkout.folder, "add", "stray")
    git(checkout.folder, "commit", "--quiet", "--message", "Add a repository by mistake")
    for sha, found in ((checkout.first, []), ("HEAD", ["inner 1", "outer 1"])):
        whole = git(checkout.folder, "rev-parse", sha).strip()
        with open_environment(Revision(checkout.folder, whole, ""), Builder("python")) as environment:
            assert names(environment.worktree) == found
