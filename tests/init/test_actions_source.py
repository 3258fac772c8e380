"""The source from which workflows install torchperf, by pip's record of this installation (PEP 610)."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest

from torchperf_ci.init.repository import PUBLISHED, find_source

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from conftest import Newcomer

    Git = Callable[..., str]
    Note = Callable[[Mapping[str, object] | None], None]

COMMIT = "a" * 40
PULL_REQUEST = ".github/workflows/torchperf-pull-request.yml"


@pytest.fixture
def note(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Note:
    """Have Python find an installation of which pip has noted this."""

    def write(content: Mapping[str, object] | None) -> None:
        info = tmp_path / "site/torchperf_ci-1.0.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: torchperf-ci\nVersion: 1.0\n")
        if content is not None:
            (info / "direct_url.json").write_text(json.dumps(content))
        monkeypatch.syspath_prepend(tmp_path / "site")

    return write


def from_git(url: str) -> Mapping[str, object]:
    return {"url": url, "vcs_info": {"vcs": "git", "requested_revision": "v1", "commit_id": COMMIT}}


@pytest.fixture
def clone(tmp_path: Path, git: Git) -> Path:
    """A clone of the project on GitHub, whose commit is not pushed yet."""
    folder = tmp_path / "a clone"
    folder.mkdir()
    git(folder, "init", "--quiet")
    git(folder, "remote", "add", "origin", "git@github.com:octo/torchperf-ci.git")
    git(folder, "commit", "--quiet", "--allow-empty", "--message", "A commit")
    return folder


def test_what_is_given_is_taken(note: Note) -> None:
    note(from_git("https://github.com/octo/torchperf-ci"))
    assert str(find_source("me/fork@v1", "")) == "me/fork@v1"


@pytest.mark.parametrize("owner", ["octo", "octocat_corp"])  # of an enterprise that manages its accounts
def test_pip_from_git_knows_the_commit(note: Note, owner: str) -> None:
    note(from_git(f"https://someone:secret@github.com/{owner}/torchperf-ci.git"))
    source = find_source(None, "")
    assert (str(source), source.is_pinned) == (f"{owner}/torchperf-ci@{COMMIT}", True)


def test_a_server_of_ones_own_is_known_where_the_repository_is_on_it_too(note: Note) -> None:
    note(from_git("https://github.example.com/octo/torchperf-ci"))
    assert str(find_source(None, "github.example.com")) == f"octo/torchperf-ci@{COMMIT}"
    assert str(find_source(None, "github.com")) == PUBLISHED


@pytest.mark.parametrize(
    "content", [None, from_git("file:///srv/torchperf-ci"), from_git("https://github.com/x")]
)
def test_else_it_is_the_published_one(note: Note, content: Mapping[str, object] | None) -> None:
    note(content)
    assert str(find_source(None, "")) == PUBLISHED


@pytest.mark.parametrize("editable", [True, False])
def test_a_clone_is_known_by_its_commit_once_that_is_pushed(
    note: Note, clone: Path, git: Git, *, editable: bool
) -> None:
    note({"url": clone.as_uri(), "dir_info": {"editable": True} if editable else {}})
    assert str(find_source(None, "")) == PUBLISHED
    git(clone, "update-ref", "refs/remotes/origin/main", "HEAD")
    assert str(find_source(None, "")) == f"octo/torchperf-ci@{git(clone, 'rev-parse', 'HEAD').strip()}"


def test_a_folder_that_is_gone_says_nothing(note: Note, tmp_path: Path) -> None:
    note({"url": (tmp_path / "gone").as_uri(), "dir_info": {}})
    assert str(find_source(None, "")) == PUBLISHED


def test_an_owner_that_nobody_knows_is_to_be_put_in(newcomer: Newcomer) -> None:
    code, said = newcomer.init(uses="OWNER/torchperf-ci@v1")
    assert code == 0
    assert "replace OWNER in the workflows by the owner" in said
    assert re.search(
        r"uses: OWNER/torchperf-ci/actions/compare@\S+ # edit: OWNER", newcomer.read(PULL_REQUEST)
    )


def test_a_tag_is_taken_and_told_to_move(newcomer: Newcomer) -> None:
    _, said = newcomer.init(uses="octocat_corp/torchperf-ci@v1")
    assert "octocat_corp/torchperf-ci@v1 can change" in said
    assert "uses: octocat_corp/torchperf-ci/actions/compare@v1\n" in newcomer.read(PULL_REQUEST)


def test_what_is_no_reference_is_refused(newcomer: Newcomer) -> None:
    code, said = newcomer.init(uses="octo/torchperf-ci@v1 # ${{ github.token }}")
    assert (code, newcomer.written()) == (2, {})
    assert "--uses cannot be" in said
