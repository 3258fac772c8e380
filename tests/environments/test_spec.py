from __future__ import annotations

import sys
from pathlib import Path

import pytest

from torchperf_ci.environments.repository import Revision
from torchperf_ci.environments.spec import Python, Wheel, recognise
from torchperf_ci.errors import UsageError


def test_a_file_that_can_be_run_is_a_python_and_no_link_is_followed(tmp_path, checkout) -> None:
    link = tmp_path / "python"
    link.symlink_to(sys.executable)
    assert recognise(str(link), checkout.folder) == Python(link)


@pytest.mark.parametrize("given", ["torch==2.12.0", "torch[opt]==2.12.0+cpu"])
def test_a_requirement_is_a_wheel(checkout, given) -> None:
    assert recognise(given, checkout.folder) == Wheel(given)


def test_a_wheels_path_is_made_absolute(tmp_path, checkout, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("thing-1-py3-none-any.whl").touch()
    found = recognise("thing-1-py3-none-any.whl", checkout.folder)
    assert found == Wheel(str(tmp_path / "thing-1-py3-none-any.whl"))
    assert str(found) == "thing-1-py3-none-any.whl"


def test_a_wheel_that_is_not_there_is_told(checkout) -> None:
    with pytest.raises(UsageError, match=r"there is no wheel at lost\.whl"):
        recognise("lost.whl", checkout.folder)


def test_a_revision_is_a_commit_a_branch_a_tag_or_a_branch_that_was_fetched(checkout, git) -> None:
    git(checkout.folder, "tag", "v1", checkout.first)
    git(checkout.folder, "update-ref", "refs/remotes/origin/feature", checkout.first)
    first = Revision(checkout.folder, checkout.first, "Say red")
    for given in (checkout.first, checkout.first[:8], "v1", "HEAD~1", "feature"):
        assert recognise(given, checkout.folder) == first
    assert str(recognise("main", checkout.folder)) == f"{checkout.second[:10]} Say blue"


def test_anything_else_is_refused_with_what_was_tried(checkout) -> None:
    with pytest.raises(UsageError) as error:
        recognise("nonsense", checkout.folder)
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
        recognise(str(tmp_path), checkout.folder)


@pytest.mark.parametrize("given", ["--help", "--output=/tmp/x", "$(touch x)", "main; touch x"])
def test_what_looks_like_an_option_or_a_shells_line_is_only_a_name(checkout, given) -> None:
    before = checkout.state()
    with pytest.raises(UsageError, match="no commit, branch or tag"):
        recognise(given, checkout.folder)
    assert checkout.state() == before


def test_a_repository_that_is_none_is_told(tmp_path) -> None:
    with pytest.raises(UsageError, match="not a git repository"):
        recognise("main", tmp_path)
    with pytest.raises(UsageError, match="there is no such directory"):
        recognise("main", tmp_path / "missing")
