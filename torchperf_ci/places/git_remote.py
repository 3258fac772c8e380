"""Which repository a data branch lies in, and how this job may reach it."""

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


# What a checkout's own settings say about reaching its remotes: actions/checkout keeps the job's token there.
_REMOTE_SETTING = re.compile(
    r"(http|credential|url|ssh|protocol)\.|core\.(sshcommand|gitproxy)\n", re.IGNORECASE
)


def reaching_settings(listing: bytes) -> list[GitSetting]:
    """Of ``git config --list -z`` of a checkout, what helps to reach its remotes."""
    entries = listing.decode(errors="surrogateescape").split("\0")
    parts = (entry.partition("\n") for entry in entries if _REMOTE_SETTING.match(entry))
    return [(key, value) for key, _, value in parts]


def token_settings(token: str, server: str) -> list[GitSetting]:
    """Show ``token`` to ``server`` (``https://github.com``), and to no other."""
    credentials = base64.b64encode(f"x-access-token:{token}".encode()).decode()
    parts = urlsplit(server)
    key = f"http.{parts.scheme}://{parts.netloc}/.extraheader"
    return [
        (key, ""),
        (key, f"AUTHORIZATION: basic {credentials}"),
    ]  # the empty one forgets what is set elsewhere


LOCAL_SECONDS = 30.0
"""For git to read a checkout's own settings."""

_ADDRESS = re.compile(r"[a-z0-9+]+://[^/]|[^/:\s-][^/:\s]*:")  # a URL, or HOST:PATH as ssh has it


@dataclass(frozen=True)
class Remote:
    """A repository's URL or absolute path, and the settings of git that help to reach it."""

    url: str
    settings: Sequence[GitSetting] = field(default=(), repr=False)


def locate_remote(given: str, access: PlaceAccess) -> Remote:
    """The remote that the checkout in the working directory calls ``given``, else a URL, else a path.

    Nothing is reached yet. Raises :class:`UsageError`.
    """
    here = Git(Path.cwd(), Deadline.after(LOCAL_SECONDS))
    url = _configured(here, given) or _address(given)
    settings = [*_checkout_settings(here), *_token_for(url, access)]
    return Remote(url, settings)


def _configured(here: Git, name: str) -> str:
    """The URL of the checkout's remote; empty where it has none of this name. A relative one is made absolute."""
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
    """Raises :class:`UsageError`, which does not repeat the URL: it may hold a credential, wherever it comes apart."""
    try:
        return urlsplit(url)
    except ValueError:
        msg = "the repository's URL is malformed; correct the checkout's remote, or what is given as branch:NAME@URL"
        raise UsageError(msg) from None


def _checkout_settings(here: Git) -> list[GitSetting]:
    try:
        return reaching_settings(here("config", "--local", "--includes", "--list", "-z"))
    except GitError:  # there is no checkout here, and it may not need one
        return []


def _token_for(url: str, access: PlaceAccess) -> list[GitSetting]:
    """The settings that show the job's token to the job's own server, whatever else is to be reached."""
    server = github_server(os.environ)
    if not access.git_token or _split(url)[:2] != _split(server)[:2]:
        return []
    access.mask(access.git_token)
    settings = token_settings(access.git_token, server)
    access.mask(settings[-1][1].rpartition(" ")[2])
    return settings
