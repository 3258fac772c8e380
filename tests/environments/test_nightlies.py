from __future__ import annotations

import subprocess
from datetime import date
from typing import TYPE_CHECKING

import pytest
from wheels import made_wheel

from torchperf_ci.environments import build_environment
from torchperf_ci.environments.build_environment import open_wheels
from torchperf_ci.environments.revisions import Revision
from torchperf_ci.environments.wheels import (
    Distribution,
    Nightlies,
    Nightly,
    built_from,
    installed_distributions,
)
from torchperf_ci.errors import EnvironmentUnderTestError, UsageError

if TYPE_CHECKING:
    from pathlib import Path

FIRST = Nightly("2.14.0.dev20261031+cpu", date(2026, 10, 31))
SECOND = Nightly("2.14.0.dev20261101+cpu", date(2026, 11, 1))
THIRD = Nightly("2.13.0.dev20261102+cpu", date(2026, 11, 2))  # of the release's branch


def torch(folder: Path, version: str, tag: str = "py3-none-any") -> None:
    folder.mkdir(parents=True, exist_ok=True)
    made_wheel(folder, f"torch-{version}-{tag}", {"torch/__init__.py": ""}, needs=["triton"])
    made_wheel(folder, f"triton-3.{version[-5]}-py3-none-any", {"triton.py": ""})


def fill(folder: Path) -> None:
    for nightly in (SECOND, THIRD, FIRST):
        torch(folder, nightly.version)
    torch(folder, "2.14.0.dev20261103+cpu", tag="cp39-cp39-win32")
    torch(folder, "2.13.0+cpu")
    torch(folder, "2.13.0.dev99999999+cpu")


def as_index(shelf: Path) -> None:
    """Pages as https://download.pytorch.org/whl/nightly/cpu/torch/ has them."""
    fill(shelf / "files")
    for package in ("torch", "triton"):
        page = shelf / f"nightly/cpu/{package}/index.html"
        page.parent.mkdir(parents=True)
        names = sorted(file.name for file in (shelf / "files").glob(f"{package}-*.whl"))
        links = (f'<a href="/files/{name.replace("+", "%2B")}">{name}</a><br/>' for name in names)
        page.write_text(f"<!DOCTYPE html><html><body><h1>{package}</h1>{''.join(links)}</body></html>")


def test_a_directorys_nightlies_that_fit_are_listed_oldest_first(
    shelf, with_pip, temporary, monkeypatch
) -> None:
    fill(shelf)
    monkeypatch.chdir(shelf.parent)
    assert Nightlies(shelf.name, with_pip).listed() == [FIRST, SECOND, THIRD]
    assert list(temporary.iterdir()) == []


def test_an_indexs_nightlies_are_listed(shelf, url, with_pip) -> None:
    """By the URL of torch's own page; that of the index is tried below."""
    as_index(shelf)
    assert Nightlies(f"{url}/nightly/cpu/torch/", with_pip).listed() == [FIRST, SECOND, THIRD]


@pytest.mark.parametrize("place", ["index", "directory"])
def test_a_nightly_is_installed_with_its_dependencies(shelf, url, with_pip, place) -> None:
    as_index(shelf)
    source = f"{url}/nightly/cpu" if place == "index" else str(shelf / "files")
    with Nightlies(source, with_pip).opened(SECOND) as environment:
        found = installed_distributions(environment.python)
        assert environment.description == "torch==2.14.0.dev20261101+cpu"
        assert subprocess.run([environment.python, "-c", "import torch, triton"], timeout=60).returncode == 0
    assert found["torch"].version == SECOND.version
    assert "triton" in found


def test_a_password_is_in_no_arguments_that_others_can_read(shelf, url, with_pip, monkeypatch) -> None:
    as_index(shelf)
    index, real, commands = url.replace("//", "//me:hush@"), build_environment.run_program, []

    def run_program(command, *rest, **more):
        commands.append(command)
        return real(command, *rest, **more)

    monkeypatch.setattr(build_environment, "run_program", run_program)
    nightlies = Nightlies(f"{index}/nightly/cpu", with_pip)
    wheel = f"{index}/files/triton-3.1-py3-none-any.whl"
    with nightlies.opened(nightlies.listed()[0]), open_wheels([wheel], wheel, with_pip, 60) as environment:
        assert [*installed_distributions(environment.python, "triton")] == ["triton"]
    assert not any("hush" in word for command in commands for word in command)


@pytest.mark.parametrize("place", ["empty", "served"])
def test_a_source_without_any_is_told(shelf, url, with_pip, place, temporary) -> None:
    source = str(shelf) if place == "empty" else url
    with pytest.raises(EnvironmentUnderTestError, match="No matching distribution found for torch") as told:
        Nightlies(source, with_pip).listed()
    assert str(told.value).startswith(f"{source} has no dated wheel of torch that fits {with_pip}, or")
    assert list(temporary.iterdir()) == []


def test_a_directorys_nightlies_are_not_mixed_with_an_indexs(shelf, url, with_pip, monkeypatch) -> None:
    as_index(shelf)
    monkeypatch.setenv("PIP_INDEX_URL", f"{url}/nightly/cpu")
    torch(shelf / "own", SECOND.version)
    assert Nightlies(str(shelf / "own"), with_pip).listed() == [SECOND]


def test_a_source_beside_which_only_releases_are_known_is_told(shelf, url, with_pip, monkeypatch) -> None:
    torch(shelf, "2.13.0")
    monkeypatch.setenv("PIP_FIND_LINKS", f"{url}/")
    with pytest.raises(
        EnvironmentUnderTestError, match=r"has no dated wheel of torch that fits .*pip-python, or"
    ):
        Nightlies(f"{url}/nightly/cpu", with_pip).listed()


def test_what_is_no_source_is_refused() -> None:
    with pytest.raises(
        UsageError, match="nowhere is neither a directory of nightly wheels nor the URL of an index"
    ):
        Nightlies("nowhere", "python")


@pytest.fixture
def release(checkout, git) -> str:
    """A commit of the branch that PyTorch's nightlies are built from."""
    git(checkout.folder, "checkout", "--quiet", "--force", "-b", "nightly", checkout.first)
    subject = f"2026-11-01 nightly release ({checkout.first})"
    git(checkout.folder, "commit", "--quiet", "--allow-empty", "--message", subject)
    return git(checkout.folder, "rev-parse", "HEAD").strip()


def installed(commit: str) -> dict[str, Distribution]:
    return {"torch": Distribution(SECOND.version, commit, requested=True)}


@pytest.mark.parametrize("by", ["a release", "itself"])
def test_the_commit_of_a_nightly_is_found(checkout, release, by) -> None:
    built = installed(release if by == "a release" else checkout.first)
    assert built_from(SECOND, built, checkout.folder) == Revision(checkout.folder, checkout.first, "Say red")


@pytest.mark.parametrize(
    ("commit", "why"),
    [
        ("", "does not say which commit it was built from"),
        ("f" * 40, f"was built from {'f' * 40}, which .* does not have .git fetch origin ffff"),
    ],
)
def test_a_nightly_whose_commit_is_not_known_is_told(checkout, commit, why) -> None:
    with pytest.raises(EnvironmentUnderTestError, match=why):
        built_from(SECOND, installed(commit), checkout.folder)
