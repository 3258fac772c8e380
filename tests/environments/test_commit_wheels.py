from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest
from wheels import made_wheel

from torchperf_ci import environments
from torchperf_ci.environments.revisions import Revision
from torchperf_ci.environments.wheels import CommitWheels, Distribution
from torchperf_ci.errors import EnvironmentUnderTestError, UsageError

if TYPE_CHECKING:
    from pathlib import Path

SHA = "abc1234def5678900000000000000000000000ff"


@pytest.fixture
def revision(tmp_path) -> Revision:
    return Revision(tmp_path, SHA, "Shine")


def lamp(folder: Path, version: str, says: str = SHA, tag: str = "py3-none-any") -> None:
    """A wheel of a package that says which commit it is of."""
    files = {"lamp/__init__.py": "", "lamp/version.py": f"git_version = '{says}'\n"}
    made_wheel(folder, f"lamp-{version}-{tag}", files)


def version_in(wheels: CommitWheels, revision: Revision) -> str:
    ask = "from importlib.metadata import version; print(version('lamp'))"
    with wheels.opened(revision) as environment:
        assert (environment.description, environment.path) == ("abc1234def Shine", ())
        assert environment.python.startswith(f"{environment.folder}/")
        told = subprocess.run([environment.python, "-c", ask], capture_output=True, text=True, check=True)
        return told.stdout.strip()


def test_a_directorys_wheel_is_found_by_the_digits_in_its_name_and_fits(
    shelf, revision, with_pip, temporary, monkeypatch
) -> None:
    """The directory may be named from here, as may a wheel (below)."""
    monkeypatch.chdir(shelf.parent)
    lamp(shelf, "1+gitabc1234")
    lamp(shelf, "1+gitabc1234", tag="cp39-cp39-win32")
    lamp(shelf, "2+gitabc1235", says="abc1235")
    lamp(shelf, "3+gitabc123", says="abc123")
    assert version_in(CommitWheels(shelf.name, with_pip), revision) == "1+gitabc1234"
    assert list(temporary.iterdir()) == []


def test_of_wheels_that_differ_by_their_build_tag_alone_each_commit_has_its_own(
    shelf, revision, with_pip
) -> None:
    lamp(shelf, "1", tag="1_abc1234-py3-none-any")
    lamp(shelf, "1", tag="2_abc1235-py3-none-any", says="abc1235")
    assert version_in(CommitWheels(str(shelf), with_pip), revision) == "1"


@pytest.mark.parametrize(
    "pattern",
    [
        "a shelf/lamp-1+git{short_sha}-py3-none-any.whl",
        "{url}/{sha}/lamp-1+git{short_sha}-py3-none-any.whl",
        "lamp==1+git{short_sha}",
    ],
)
def test_a_pattern_is_filled_in(shelf, url, revision, with_pip, pattern, monkeypatch) -> None:
    monkeypatch.setenv("PIP_FIND_LINKS", f"{url}/")
    monkeypatch.chdir(shelf.parent)
    (shelf / SHA).mkdir()
    for folder in (shelf, shelf / SHA):
        lamp(folder, "1+gitabc1234")
    pattern = pattern.replace("{url}", url)
    assert version_in(CommitWheels(pattern, with_pip), revision) == "1+gitabc1234"


def test_a_urls_secrets_are_not_told(url, revision, with_pip) -> None:
    pattern = url.replace("//", "//me:hush@") + "/{sha}/lamp-1-py3-none-any.whl"
    with (
        pytest.raises(EnvironmentUnderTestError, match="pip install http") as error,
        CommitWheels(pattern, with_pip).opened(revision),
    ):
        pass
    assert "hush" not in str(error.value)


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("{shelf}", "none in .*a shelf has abc1234 in its name"),
        ("{shelf}/{sha}.whl", f"there is no .*a shelf/{SHA}.whl"),
        ("{url}/{sha}/lamp-1-py3-none-any.whl", "404"),
        ("lamp==1+git{short_sha}", "No matching distribution found for lamp==1"),
    ],
)
def test_a_commit_without_a_wheel_is_told(shelf, url, revision, with_pip, pattern, why) -> None:
    pattern = pattern.replace("{shelf}", str(shelf)).replace("{url}", url)
    with (
        pytest.raises(EnvironmentUnderTestError, match=why),
        CommitWheels(pattern, with_pip).opened(revision),
    ):
        pass


def test_a_wheel_that_says_to_be_another_commits_is_refused(shelf, revision, with_pip, temporary) -> None:
    lamp(shelf, "1+gitabc1234", says="f" * 40)
    with (
        pytest.raises(
            EnvironmentUnderTestError, match=r"lamp 1\+gitabc1234, which says that it is ffffffffff$"
        ),
        CommitWheels(str(shelf), with_pip).opened(revision),
    ):
        pass
    assert list(temporary.iterdir()) == []


def test_what_a_wheel_requires_may_be_of_any_commit(revision, monkeypatch) -> None:
    required = {"bulb": Distribution("2", "f" * 40, requested=False)}
    monkeypatch.setattr(environments.wheels, "installed_distributions", lambda _: required)
    environments.wheels._check_claims("python", revision)


@pytest.mark.parametrize("pattern", ["nowhere", "torch", "https://me:hush@host/torch-1.whl"])
def test_what_cannot_tell_commits_apart_is_refused(pattern) -> None:
    with pytest.raises(UsageError, match=r"has neither \{sha\} nor \{short_sha\} in it") as error:
        CommitWheels(pattern, "python")
    assert "hush" not in str(error.value)
