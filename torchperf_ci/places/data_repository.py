"""A bare repository of our own in front of a data branch: it reads the branch and adds commits to it.

The user's checkout, its index, stash, references and hooks are not involved at all.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from torchperf_ci.git import Git
from torchperf_ci.records.files import LINK
from torchperf_ci.records.limits import MAX_BYTES, mebibytes

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from torchperf_ci.deadline import Deadline
    from torchperf_ci.places.remotes import Remote

IDENTITY = "torchperf <noreply@torchperf.invalid>"
_LINK = "120000"
"""The mode of a symbolic link, whose content is a path."""
BASE, NEXT = "refs/torchperf/base", "refs/torchperf/next"

# Nothing that the user has set for working by hand may act here: no hook, no signature, no clean-up in the background.
_PLAIN = (
    ("core.hooksPath", "/dev/null"),
    ("fetch.recurseSubmodules", "false"),
    ("gc.auto", "0"),
    ("maintenance.auto", "false"),
    ("push.followTags", "false"),
    ("push.gpgSign", "false"),
    ("push.recurseSubmodules", "no"),
)


@dataclass(frozen=True)
class DataRepository:
    """The repository, and the branch that it stands for. What it cannot do raises :class:`GitError`."""

    git: Git
    branch: str

    @classmethod
    def create(cls, folder: Path, branch: str, remote: Remote, deadline: Deadline) -> DataRepository:
        """Make the repository in the empty ``folder``."""
        settings = (*_PLAIN, *remote.settings, ("remote.data.url", remote.url))
        git = Git(folder, deadline, settings)
        git("init", "--quiet", "--bare", "--template=")
        return cls(git, branch)

    @property
    def _ref(self) -> str:
        return f"refs/heads/{self.branch}"

    def tip(self) -> str:
        """The commit at the branch's end on the remote; empty where there is no branch yet."""
        return self.git("ls-remote", "data", self._ref).partition(b"\t")[0].decode()

    def fetch(self, *, contents: bool) -> str:
        """Bring the newest state here, no history, and file contents only on request; the commit, or empty."""
        if not self.tip():
            return ""
        less = () if contents else ("--filter=blob:none",)
        self.git("fetch", "--quiet", "--no-tags", "--depth=1", *less, "data", f"+{self._ref}:{BASE}")
        return self.git("rev-parse", BASE).decode().strip()

    def files(self, commit: str) -> dict[str, str]:
        """Path → object id of every file in ``commit``."""
        listing = self.git("ls-tree", "-r", "-z", "--full-tree", commit).decode(errors="surrogateescape")
        entries = (entry.partition("\t") for entry in listing.split("\0") if entry)
        return {path: about.split()[2] for about, _, path in entries if about.split()[1] == "blob"}

    def unfit(self, commit: str) -> dict[str, str]:
        """Path → why a file in ``commit`` is not read. Their contents must be here: git tells their sizes by them."""
        listing = self.git("ls-tree", "-r", "-l", "-z", "--full-tree", commit).decode(
            errors="surrogateescape"
        )
        entries = (entry.partition("\t") for entry in listing.split("\0") if entry)
        found = {path: _unfit(*about.split()) for about, _, path in entries}
        return {path: reason for path, reason in found.items() if reason}

    def read(self, blob: str) -> bytes:
        """The content of a file, from the remote where it is not here yet."""
        return self.git("cat-file", "blob", blob)

    def commit(self, bodies: Mapping[str, bytes], parent: str) -> None:
        """Make the commit that adds ``bodies`` to ``parent``."""
        message = f"Add {len(bodies)} record file{'' if len(bodies) == 1 else 's'}".encode()
        stream = [f"commit {NEXT}\ncommitter {IDENTITY} now\n".encode(), _data(message)]
        stream += [f"from {parent}\n".encode()] if parent else []
        for path, body in bodies.items():
            stream += [f"M 100644 inline {path}\n".encode(), _data(body)]
        arguments = ("--quiet", "--force", "--done", "--date-format=now")
        self.git("fast-import", *arguments, stdin=b"".join([*stream, b"done\n"]))

    def push(self, parent: str) -> None:
        """Make that commit the branch's end, if its end still is ``parent``."""
        self.git("push", "--quiet", f"--force-with-lease={self._ref}:{parent}", "data", f"{NEXT}:{self._ref}")


def _unfit(mode: str, kind: str, _blob: str, size: str) -> str:
    if mode == _LINK:
        return LINK
    if kind == "blob" and int(size) > MAX_BYTES:
        return f"holds more than {mebibytes(MAX_BYTES)}; split it"
    return ""


def blob_id(body: bytes) -> str:
    """The object id that git gives to a file of this content."""
    return hashlib.sha1(b"blob %d\0" % len(body) + body, usedforsecurity=False).hexdigest()


def _data(content: bytes) -> bytes:
    return b"data %d\n%b\n" % (len(content), content)
