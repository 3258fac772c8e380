"""Find the repository of a data branch, and the credentials with which this job can reach it."""

from __future__ import annotations

import base64
import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from torchperf_ci.deadline import Deadline
from torchperf_ci.errors import UsageError
from torchperf_ci.git import Git, GitError
from torchperf_ci.github import github_server

if TYPE_CHECKING:
    from collections.abc import Sequence
    from urllib.parse import SplitResult

    from torchperf_ci.git import GitSetting
    from torchperf_ci.places.place import PlaceAccess


# Settings of a checkout that matter for reaching its remotes: actions/checkout stores the job's token there.
_REMOTE_SETTING = re.compile(
    r"(http|credential|url|ssh|protocol)\.|core\.(sshcommand|gitproxy)\n", re.IGNORECASE
)


def reaching_settings(listing: bytes) -> list[GitSetting]:
    """Select the settings needed to reach a checkout's remotes from the output of ``git config --list -z``."""
    entries = listing.decode(errors="surrogateescape").split("\0")
    parts = (entry.partition("\n") for entry in entries if _REMOTE_SETTING.match(entry))
    return [(key, value) for key, _, value in parts]


def token_settings(token: str, server: str) -> list[GitSetting]:
    """Return the git settings that send ``token`` to ``server`` (``https://github.com``) and to no other server."""
    credentials = base64.b64encode(f"x-access-token:{token}".encode()).decode()
    parts = urlsplit(server)
    key = f"http.{parts.scheme}://{parts.netloc}/.extraheader"
    return [
        (key, ""),
        (key, f"AUTHORIZATION: basic {credentials}"),
    ]  # the empty value resets what is set elsewhere


LOCAL_SECONDS = 30.0
"""Deadline for git to read a checkout's settings."""

_ADDRESS = re.compile(r"[a-z0-9+]+://[^/]|[^/:\s-][^/:\s]*:")  # a URL, or HOST:PATH as ssh has it


@dataclass(frozen=True)
class Remote:
    """A repository's URL or absolute path, and the git settings needed to reach it."""

    url: str
    settings: Sequence[GitSetting] = field(default=(), repr=False)


def locate_remote(given: str, access: PlaceAccess) -> Remote:
    """Return the remote named ``given`` of the checkout in the working directory; else ``given`` is a URL or a path.

    This does not connect to anything. Raises :class:`UsageError`.
    """
    here = Git(Path.cwd(), Deadline.after(LOCAL_SECONDS))
    url = _configured(here, given) or _address(given)
    settings = [*_checkout_settings(here), *_token_for(url, access)]
    return Remote(url, settings)


def _configured(here: Git, name: str) -> str:
    """Return the URL of the checkout's remote, with a relative path made absolute; empty if there is no such remote."""
    try:
        url = here("config", "--get", f"remote.{name}.url").decode().strip()
        top = here("rev-parse", "--show-toplevel").decode().strip() if url else ""
    except GitError:
        return ""
    return url if _ADDRESS.match(url) else str(Path(top, url))


def _address(given: str) -> str:
    if Path(given).is_dir():
        return str(Path(given).absolute())
    if not _ADDRESS.match(given):
        msg = (
            f"{given!r} is no remote of a git checkout here, no repository's URL and no directory; run in a checkout, "
            "or name the repository: branch:NAME@URL"
        )
        raise UsageError(msg)
    parts = _split(given)
    if parts.password or (parts.username and parts.scheme.startswith("http")):
        msg = (
            f"the URL of {parts.hostname} holds a credential, which logs and files would show; "
            "leave it out, and give a token or let git's credential helper find it"
        )
        raise UsageError(msg)
    return given


def _split(url: str) -> SplitResult:
    """Split a URL. Raises :class:`UsageError`, which never quotes the URL, since it may contain a credential."""
    try:
        return urlsplit(url)
    except ValueError:
        msg = "the repository's URL is malformed; correct the checkout's remote, or what is given as branch:NAME@URL"
        raise UsageError(msg) from None


def _checkout_settings(here: Git) -> list[GitSetting]:
    try:
        return reaching_settings(here("config", "--local", "--includes", "--list", "-z"))
    except GitError:  # there is no checkout, and the remote may not need one
        return []


def _token_for(url: str, access: PlaceAccess) -> list[GitSetting]:
    """Return the settings that send the job's token; none unless ``url`` is on the job's own GitHub server."""
    server = github_server(os.environ)
    if not access.git_token or _split(url)[:2] != _split(server)[:2]:
        return []
    access.mask(access.git_token)
    settings = token_settings(access.git_token, server)
    access.mask(settings[-1][1].rpartition(" ")[2])
    return settings
