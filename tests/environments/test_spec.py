from __future__ import annotations

import sys
from pathlib import Path

import pytest

from torchperf_ci.environments.build_environment import (
    Interpreter,
    WheelRequirement,
    names_commit,
    parse_build_spec,
)
from torchperf_ci.environments.revisions import Revision
from torchperf_ci.errors import UsageError


def test_a_file_that_can_be_run_is_a_python_and_no_link_is_followed(tmp_path, checkout) -> None:
    link = tmp_path / "python"
    link.symlink_to(sys.executable)
    assert parse_build_spec(str(link), checkout.folder) == Interpreter(link)


def test_a_file_of_a_commits_name_is_never_run(checkout, git, monkeypatch) -> None:
    monkeypatch.chdir(checkout.folder)
    git(checkout.folder, "branch", "wip/fast", checkout.first)
    for name in (checkout.first, "main", "wip/fast", "0123456789abcdef", "wip/gone"):
        file = checkout.folder / name
        file.parent.mkdir(exist_ok=True)
        file.write_text("#!/bin/sh\n")
        file.chmod(0o755)
    assert isinstance(parse_build_spec(checkout.first, checkout.folder), Revision)
    assert isinstance(parse_build_spec("main", checkout.folder), Revision)
    assert isinstance(parse_build_spec("wip/fast", checkout.folder), Revision)
    for gone in ("0123456789abcdef", "wip/gone"):
        with pytest.raises(
            UsageError, match=rf"is not a commit, branch or tag of .*; if you mean the file: \./{gone}"
        ):
            parse_build_spec(gone, checkout.folder)
        assert parse_build_spec(f"./{gone}", checkout.folder) == Interpreter(checkout.folder / gone)


def test_a_python_of_an_environment_needs_no_dot(tmp_path, checkout, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "old/bin").mkdir(parents=True)
    (tmp_path / "old/bin/python3.12").symlink_to(sys.executable)
    assert parse_build_spec("old/bin/python3.12", checkout.folder) == Interpreter(
        tmp_path / "old/bin/python3.12"
    )


def test_digits_and_what_git_knows_name_a_commit_and_a_path_does_not(checkout) -> None:
    named = {
        given: names_commit(given, checkout.folder)
        for given in ("main", "HEAD~1", "0123abc", "./main", "old")
    }
    assert named == {"main": True, "HEAD~1": True, "0123abc": True, "./main": False, "old": False}


@pytest.mark.parametrize("given", ["torch==2.12.0", "torch[opt]==2.12.0+cpu"])
def test_a_requirement_is_a_wheel(checkout, given) -> None:
    assert parse_build_spec(given, checkout.folder) == WheelRequirement(given)


def test_a_wheels_path_is_made_absolute(tmp_path, checkout, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("thing-1-py3-none-any.whl").touch()
    found = parse_build_spec("thing-1-py3-none-any.whl", checkout.folder)
    assert found == WheelRequirement(str(tmp_path / "thing-1-py3-none-any.whl"))
    assert str(found) == "thing-1-py3-none-any.whl"


def test_a_wheel_that_is_not_there_is_told(checkout) -> None:
    with pytest.raises(UsageError, match=r"there is no wheel at lost\.whl"):
        parse_build_spec("lost.whl", checkout.folder)


def test_a_revision_is_a_commit_a_branch_a_tag_or_a_branch_that_was_fetched(checkout, git) -> None:
    git(checkout.folder, "tag", "v1", checkout.first)
    git(checkout.folder, "update-ref", "refs/remotes/origin/feature", checkout.first)
    first = Revision(checkout.folder, checkout.first, "Say red")
    for given in (checkout.first, checkout.first[:8], "v1", "HEAD~1", "feature"):
        assert parse_build_spec(given, checkout.folder) == first
    assert str(parse_build_spec("main", checkout.folder)) == f"{checkout.second[:10]} Say blue"


def test_anything_else_is_refused_with_what_was_tried(checkout) -> None:
    with pytest.raises(UsageError) as error:
        parse_build_spec("nonsense", checkout.folder)
    for tried in (
        "not a file that can be run",
        "no requirement",
        "no path of a wheel",
        "no commit, branch or tag",
        "fetch",
    ):
        assert tried in str(error.value)


def test_an_empty_directory_is_refused_as_one(tmp_path, checkout) -> None:
    with pytest.raises(UsageError, match="is a directory without records"):
        parse_build_spec(str(tmp_path), checkout.folder)


def test_a_directory_named_like_a_commit_is_not_said_to_be_without_records(
    tmp_path, checkout, monkeypatch
) -> None:
    """Such as one a day."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "20261101").mkdir()
    with pytest.raises(UsageError, match=r"if you mean the directory: \./20261101"):
        parse_build_spec("20261101", checkout.folder)


@pytest.mark.parametrize("given", ["--help", "--output=/tmp/x", "$(touch x)", "main; touch x"])
def test_what_looks_like_an_option_or_a_shells_line_is_only_a_name(checkout, given) -> None:
    before = checkout.state()
    with pytest.raises(UsageError, match="no commit, branch or tag"):
        parse_build_spec(given, checkout.folder)
    assert checkout.state() == before


def test_a_repository_that_is_none_is_told(tmp_path) -> None:
    with pytest.raises(UsageError, match=f"{tmp_path} is in no git checkout: go to the checkout"):
        parse_build_spec("main", tmp_path)
    with pytest.raises(UsageError, match=f"there is no directory {tmp_path}/missing: go to the checkout"):
        parse_build_spec("main", tmp_path / "missing")


def test_the_name_of_a_branch_and_a_tag_is_no_guess(checkout, git) -> None:
    git(checkout.folder, "branch", "release", checkout.first)
    git(checkout.folder, "tag", "release", checkout.first)
    assert isinstance(parse_build_spec("release", checkout.folder), Revision)
    git(checkout.folder, "tag", "--force", "release", "main")
    with pytest.raises(
        UsageError, match=r"'release' is a branch and a tag, of two commits: write refs/heads/release"
    ):
        parse_build_spec("release", checkout.folder)
    branch = parse_build_spec("refs/heads/release", checkout.folder)
    assert isinstance(branch, Revision)
    assert branch.sha == checkout.first
