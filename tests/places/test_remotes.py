"""The remote of a data branch: how it is named, and the credentials with which a job reaches it."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

import pytest
from contents import contents
from scripted_http import scripted_server

from torchperf_ci.errors import CredentialsError, NotDeliveredError, UsageError
from torchperf_ci.places import open_place
from torchperf_ci.places.place import PlaceAccess

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Run = Callable[..., str]


TOKEN = "ghs_a-token-of-the-job"

BASIC = "basic " + base64.b64encode(f"x-access-token:{TOKEN}".encode()).decode()


def test_what_the_checkout_pushes_elsewhere_is_pushed_there(checkout: Path, remote: Path, git: Run) -> None:
    mirror = remote.parent / "mirror.git"
    git(remote, "init", "--quiet", "--bare", str(mirror))
    git(checkout, "remote", "set-url", "origin", f"file://{remote}")
    git(checkout, "config", "remote.origin.pushurl", "../\udcff.git")
    with pytest.raises(NotDeliveredError, match=r"\.git' does not appear to be a git repository"):
        open_place("branch:perf-data").put("v3/a.json", b"[]")
    (remote.parent / "\udcff.git").symlink_to(remote)
    git(checkout, "config", "--add", "remote.origin.pushurl", str(mirror))
    assert open_place("branch:perf-data").put("v3/a.json", b"[]") == "written"
    assert contents(open_place(f"branch:perf-data@{mirror}")) == {"v3/a.json": b"[]"}


def test_the_job_s_token_reaches_the_job_s_server_only_once_and_nobody_sees_it(
    checkout, git, monkeypatch
) -> None:
    masked: list[str] = []
    with scripted_server() as script:
        script.answers = [(403, b"")]
        monkeypatch.setenv("GITHUB_SERVER_URL", script.url)
        key = f"http.{script.url}/.extraheader"
        git(checkout, "config", key, "AUTHORIZATION: basic of-the-checkout")
        target = f"branch:x@{script.url}/o/r"
        with pytest.raises(CredentialsError, match="GITHUB_TOKEN is not one"):
            open_place(target, PlaceAccess(git_token="a\udcff"))
        place = open_place(target, PlaceAccess(git_token=f"{TOKEN}\n", mask=masked.append))
        with pytest.raises(NotDeliveredError, match="403") as refused:
            place.put("a", b"1")
    assert script.authorizations == [[BASIC]] * len(script.requests) != []
    assert masked == [TOKEN, BASIC.removeprefix("basic ")]
    assert not any(secret in f"{refused.value} {place.name} {place._remote}" for secret in masked)


def test_the_job_s_token_goes_to_no_other_server(monkeypatch: pytest.MonkeyPatch, git: Run) -> None:
    with scripted_server() as script:
        script.answers = [(404, b"")]
        monkeypatch.setenv("GITHUB_SERVER_URL", "https://github.example")
        with pytest.raises(NotDeliveredError):
            open_place(f"branch:x@{script.url}/o/r", PlaceAccess(git_token=TOKEN)).put("a", b"1")
    assert script.authorizations == [[]] * len(script.requests) != []


def test_what_the_checkout_keeps_for_its_remote_is_used(checkout: Path, git: Run, tmp_path: Path) -> None:
    with scripted_server() as script:
        script.answers = [(403, b"")]
        kept = tmp_path / "credentials"  # as actions/checkout keeps them, outside of the checkout
        kept.write_text(f'[http "{script.url}/"]\n\textraheader = AUTHORIZATION: basic of-the-checkout\n')
        git(checkout, "config", f"includeIf.gitdir:{checkout}/.git.path", str(kept))
        git(checkout, "remote", "set-url", "origin", f"{script.url}/o/r")
        with pytest.raises(NotDeliveredError) as refused:
            open_place("branch:x").put("a", b"1")
    assert script.authorizations == [["basic of-the-checkout"]] * len(script.requests) != []
    assert "of-the-checkout" not in str(refused.value)


def test_where_git_is_not_installed_the_remote_is_not_blamed(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UsageError, match="git is not installed"):
        open_place("branch:x", PlaceAccess())


def test_a_checkout_of_another_owner_is_named_with_what_git_says_to_do(checkout: Path, monkeypatch) -> None:
    """As in a job with ``container:``, which is root's."""
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
    with pytest.raises(UsageError, match=r"dubious ownership .* git config --global --add safe\.directory"):
        open_place("branch:x", PlaceAccess())


@pytest.mark.parametrize(
    ("target", "says"),
    [
        ("branch:", r"names no branch .* give branch:NAME"),
        ("branch:a b", r"names no branch .* ' '"),
        *((f"branch:{name}@origin", r"git refuses it") for name in ("a..b", "a/.b", "a.", "a.lock")),
        ("branch:x", "no remote .* `git remote add`"),
        ("branch:x@--upload-pack=touch", "no remote"),
        ("branch:x@nowhere", "no remote"),
        ("branch:x@https://me:secret@host/r", "holds a credential"),
        ("branch:x@https://secret@host/r", "holds a credential"),
    ],
)
def test_addresses_that_are_none(target: str, says: str, tmp_path: Path, git: Run, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=says) as refused:
        open_place(target)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize("url", ["https://[::1/o/r", "https://u:s3cret@[x/o/r", "https://u:s3 cret@h]/o/r"])
def test_a_malformed_remote_is_named_without_its_password(checkout: Path, git: Run, url: str) -> None:
    git(checkout, "remote", "add", "broken", url)
    with pytest.raises(UsageError, match="the repository's URL is malformed") as caught:
        open_place("branch:data@broken", PlaceAccess(git_token=TOKEN))
    assert "s3" not in str(caught.value)
