"""The repository of a data branch: where it is, the credentials with which this job can reach it, and its commits.

Git works in a temporary bare repository that holds as little of it as possible.
"""

from __future__ import annotations

import base64
import hashlib
import os
import re
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import SplitResult, urlsplit

from torchperf_ci.errors import UsageError
from torchperf_ci.git import Git, GitError, GitSetting
from torchperf_ci.github import checked_token, github_server
from torchperf_ci.places.place import ListedObject, PlaceAccess, in_batches
from torchperf_ci.records.files import MAX_BYTES

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from torchperf_ci.deadline import Deadline


# Settings of a checkout that matter for reaching its remotes: actions/checkout stores the job's token there.
_REMOTE_SETTING = re.compile(r"(?i)(http|credential|url|ssh|protocol)\.|core\.(sshcommand|gitproxy)\n")


def token_settings(token: str, server: str) -> list[GitSetting]:
    """Return the git settings that send ``token`` to ``server`` (``https://github.com``) and to no other server."""
    credentials = base64.b64encode(f"x-access-token:{token}".encode()).decode()
    parts = urlsplit(server)
    key = f"http.{parts.scheme}://{parts.netloc}/.extraheader"
    # The empty value resets what is set elsewhere.
    return [(key, ""), (key, f"AUTHORIZATION: basic {credentials}")]


LOCAL_SECONDS = 30.0
"""Deadline for git to read a checkout's settings."""

_NAME = "data"
"""The remote's name in a :class:`DataRepository`."""

_ADDRESS = re.compile(r"[a-z0-9+]+://[^/]|[^/:\s-][^/:\s]*:")  # a URL, or HOST:PATH as ssh has it


@dataclass(frozen=True)
class Remote:
    """A repository's URL or absolute path, and the git settings needed to reach it."""

    url: str
    settings: Sequence[GitSetting] = field(default=(), repr=False)


def locate_remote(value: str, access: PlaceAccess) -> Remote:
    """Return the remote named ``value`` of the checkout in the working directory; else ``value`` is a URL or a path.

    This does not connect to anything. Raises :class:`UsageError`.
    """
    here = Git.within(LOCAL_SECONDS, Path.cwd())
    url, *_ = _configured(here, f"remote.{value}.url") or [_address(here, value)]
    push_urls = _configured(here, f"remote.{value}.pushurl")
    pushed = [(f"remote.{_NAME}.pushurl", push_url) for push_url in push_urls]
    return Remote(url, [*_checkout_settings(here), *_token_for([url, *push_urls], access), *pushed])


def _configured(here: Git, key: str) -> list[str]:
    """Return the URLs that the checkout's configuration has for a key, with relative paths made absolute."""
    try:
        urls = os.fsdecode(here("config", "--get-all", key)).splitlines()
        top = os.fsdecode(here("rev-parse", "--show-toplevel")).strip()
    except GitError:
        return []
    return [url if _ADDRESS.match(url) else str(Path(top, url)) for url in urls if url]


def _address(here: Git, value: str) -> str:
    if Path(value).is_dir():
        return str(Path(value).absolute())
    if not _ADDRESS.match(value):
        msg = (
            f"{value!r} is no remote of a git checkout here, no repository's URL and no directory; add the remote to "
            "the checkout with `git remote add`, or name the repository: branch:NAME@URL"
        )
        try:
            here("rev-parse", "--git-dir")
        except GitError as error:  # git is not installed, or refuses a checkout of another owner
            msg = f"{msg} ({error})"
        raise UsageError(msg)
    parts = _split(value)
    if parts.password or (parts.username and parts.scheme.startswith("http")):
        msg = (
            f"the URL of {parts.hostname} holds a credential, which logs and files would show; "
            "leave it out, and give a token or let git's credential helper find it"
        )
        raise UsageError(msg)
    return value


def _split(url: str) -> SplitResult:
    """Split a URL. Raises :class:`UsageError`, which never quotes the URL, since it may contain a credential."""
    try:
        return urlsplit(url)
    except ValueError:
        msg = "the repository's URL is malformed; correct the checkout's remote, or what is given as branch:NAME@URL"
        raise UsageError(msg) from None


def _checkout_settings(here: Git) -> list[GitSetting]:
    """Return the settings of the checkout that are needed to reach its remotes."""
    try:
        listing = here("config", "--local", "--includes", "--list", "-z")
    except GitError:  # there is no checkout, and the remote may not need one
        return []
    entries = listing.decode(errors="surrogateescape").split("\0")
    parts = (entry.partition("\n") for entry in entries if _REMOTE_SETTING.match(entry))
    return [(key, value) for key, _, value in parts]


def _token_for(urls: Iterable[str], access: PlaceAccess) -> list[GitSetting]:
    """Return the settings that send the job's token; none unless one of ``urls`` is on the job's own GitHub server."""
    server = github_server(os.environ)
    if not access.git_token or _split(server)[:2] not in [_split(url)[:2] for url in urls]:
        return []
    token = checked_token(access.git_token)
    access.mask(token)
    settings = token_settings(token, server)
    access.mask(settings[-1][1].rpartition(" ")[2])
    return settings


COMMITTER = "torchperf <noreply@torchperf.invalid>"
_LINK = "120000"
"""The mode of a symbolic link, whose content is a path."""
BASE, NEXT = "refs/torchperf/base", "refs/torchperf/next"

# The user's own git settings must not have any effect here, beyond those that :class:`Git` overrides everywhere.
_GIT_SETTINGS = (
    ("fetch.recurseSubmodules", "false"),
    ("protocol.version", "2"),  # older ones let a client ask for no file by its id
    ("push.followTags", "false"),
    ("push.gpgSign", "false"),
    ("push.recurseSubmodules", "no"),
)
_AT_ONCE = 16 * 2**20
"""Bytes of file contents that are read from git in one call."""
_FETCHED_AT_ONCE = 20_000
"""Files that are requested from the remote in one fetch."""


@dataclass(frozen=True)
class BranchFile:
    """A file of the branch: the blob id of its content, and whether it is a symbolic link, which is never followed."""

    blob: str
    is_link: bool = False


@dataclass(frozen=True)
class DataRepository:
    """A repository for one branch, with nothing checked out. All methods raise :class:`GitError` if git fails."""

    git: Git
    branch: str

    @classmethod
    def create(cls, folder: Path, branch: str, remote: Remote, deadline: Deadline) -> DataRepository:
        """Create the repository in the empty ``folder``."""
        settings = (*_GIT_SETTINGS, *remote.settings, (f"remote.{_NAME}.url", remote.url))
        git = Git(folder, deadline, settings)
        git("init", "--quiet", "--template=", "--object-format=sha1")  # whatever the default is here
        return cls(git, branch)

    @property
    def _ref(self) -> str:
        return f"refs/heads/{self.branch}"

    def until(self, deadline: Deadline) -> DataRepository:
        """Return the same repository with another deadline."""
        return replace(self, git=replace(self.git, deadline=deadline))

    def tip(self) -> str:
        """Return the commit at the tip of the remote branch; empty if the branch does not exist."""
        ending_so = (line.split(b"\t") for line in self.git("ls-remote", _NAME, self._ref).splitlines())
        return next((sha.decode() for sha, ref in ending_so if ref == self._ref.encode()), "")

    def fetch(self) -> str:
        """Fetch the newest tree without history and contents; return its commit, empty if there is no branch."""
        if not self.tip():
            # git takes any page, such as one to log in, for an empty listing, until it is to fetch something.
            try:
                self.git("fetch", "--quiet", "--depth=1", _NAME, "1" * 40)
            except GitError as error:
                if "dumb http" in str(error):
                    raise
            return ""
        less = ("--no-tags", "--depth=1", "--filter=blob:none")
        self.git("fetch", "--quiet", *less, _NAME, f"+{self._ref}:{BASE}")
        return self.git("rev-parse", BASE).decode().strip()

    def committers(self) -> set[str]:
        """Return the committers of the whole history. This fetches the history, so use a separate repository."""
        self.git("fetch", "--quiet", "--no-tags", "--filter=tree:0", _NAME, f"+{self._ref}:{BASE}")
        return set(self.git("log", "--format=%cn <%ce>", BASE).decode(errors="replace").splitlines())

    def files(self, commit: str) -> dict[str, BranchFile]:
        """Return every file in ``commit`` by its path, in which bytes that are not UTF-8 are escaped."""
        listing = self.git("ls-tree", "-r", "-z", "--full-tree", commit).decode(errors="backslashreplace")
        entries = (entry.partition("\t") for entry in listing.split("\0") if entry)
        parts = ((path, *about.split()) for about, _, path in entries)
        return {path: BranchFile(blob, mode == _LINK) for path, mode, kind, blob in parts if kind == "blob"}

    def read(self, blob: str) -> bytes:
        """Return the content of a file, fetching it if necessary."""
        return self.git("cat-file", "blob", blob)

    def bring(self, blobs: Collection[str]) -> None:
        """Fetch missing contents in bulk: one by one would take thousands of network requests."""
        listing = self.git("cat-file", "--batch-all-objects", "--batch-check=%(objectname)")
        missing = sorted({*blobs} - set(listing.decode().split()))
        git = replace(self.git, settings=(*self.git.settings, ("fetch.negotiationAlgorithm", "noop")))
        for start in range(0, len(missing), _FETCHED_AT_ONCE):
            names = "\n".join(missing[start : start + _FETCHED_AT_ONCE]).encode()
            less = ("--no-tags", "--no-write-fetch-head", "--filter=blob:none")
            git("fetch", "--quiet", *less, _NAME, "--stdin", stdin=names)

    def read_all(self, blobs: Sequence[str]) -> Iterator[bytes | None]:
        """Yield the contents of files that have been fetched, in order; None for one above the size limit."""
        sizes = self.git("cat-file", "--batch-check=%(objectsize)", stdin="\n".join(blobs).encode())
        listed = map(ListedObject, blobs, blobs, map(int, sizes.split()))
        for batch in in_batches(listed, min(_AT_ONCE, MAX_BYTES)):
            if batch[0].size > MAX_BYTES:  # which is alone, as any larger than a batch
                yield None
            else:
                yield from self.git.blobs([blob.key for blob in batch])

    def commit(self, bodies: Mapping[str, bytes], parent: str) -> None:
        """Create the commit that adds ``bodies`` to ``parent``."""
        message = f"Add {len(bodies)} record file{'' if len(bodies) == 1 else 's'}"
        self._import(message, [f"from {parent}\n".encode()] if parent else [], bodies)

    def commit_instead(
        self,
        message: str,
        removed: Collection[str],
        bodies: Mapping[str, bytes],
        parent: str,
        *,
        keep_history: bool,
    ) -> None:
        """Create the commit with the files of ``parent`` without ``removed``, plus ``bodies``.

        Unless ``keep_history``, it becomes the first commit of the branch.
        """
        tree = self.git("rev-parse", f"{parent}^{{tree}}").decode().strip()
        start = f"from {parent}\n" if keep_history else f'M 040000 {tree} ""\n'
        self._import(message, [start.encode(), *(f"D {path}\n".encode() for path in removed)], bodies)

    def _import(self, message: str, start: Sequence[bytes], bodies: Mapping[str, bytes]) -> None:
        stream = [
            f"commit {NEXT}\ncommitter {COMMITTER} now\n".encode(),
            _fast_import_data(message.encode()),
            *start,
        ]
        for path, body in bodies.items():
            stream += [f"M 100644 inline {path}\n".encode(), _fast_import_data(body)]
        arguments = ("--quiet", "--force", "--done", "--date-format=now")
        self.git("fast-import", *arguments, stdin=b"".join([*stream, b"done\n"]))

    def push(self, parent: str) -> None:
        """Push the commit that was created, provided that the tip of the branch is still ``parent``."""
        self.git("push", "--quiet", f"--force-with-lease={self._ref}:{parent}", _NAME, f"{NEXT}:{self._ref}")


def blob_id(body: bytes) -> str:
    """Return git's object id for a file with this content."""
    return hashlib.sha1(b"blob %d\0" % len(body) + body, usedforsecurity=False).hexdigest()


def _fast_import_data(content: bytes) -> bytes:
    return b"data %d\n%b\n" % (len(content), content)
