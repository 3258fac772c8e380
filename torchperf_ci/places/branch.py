"""A branch of a git repository as a place: history without any infrastructure.

The user's checkout, its index, stash, references and hooks are not involved at all.
"""

from __future__ import annotations

import hashlib
import shutil
import tempfile
import weakref
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from torchperf_ci.deadline import Deadline
from torchperf_ci.errors import ConflictError, NotDeliveredError, PlaceUnreadableError, UnfitObjectError
from torchperf_ci.git import Git, GitError, without_secrets
from torchperf_ci.places.git_remote import Remote, locate_remote
from torchperf_ci.places.place import PutOutcome, PutResult, RecordPlace, check_keys, same_content
from torchperf_ci.records.files import LINK, MAX_BYTES, mebibytes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from torchperf_ci.places.place import PlaceAccess


COMMITTER = "torchperf <noreply@torchperf.invalid>"
_LINK = "120000"
"""The mode of a symbolic link, whose content is a path."""
BASE, NEXT = "refs/torchperf/base", "refs/torchperf/next"

# Nothing that the user has set for working by hand may act here: no hook, no signature, no clean-up in the background.
_GIT_SETTINGS = (
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
        settings = (*_GIT_SETTINGS, *remote.settings, ("remote.data.url", remote.url))
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
        stream = [f"commit {NEXT}\ncommitter {COMMITTER} now\n".encode(), _fast_import_data(message)]
        stream += [f"from {parent}\n".encode()] if parent else []
        for path, body in bodies.items():
            stream += [f"M 100644 inline {path}\n".encode(), _fast_import_data(body)]
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


def _fast_import_data(content: bytes) -> bytes:
    return b"data %d\n%b\n" % (len(content), content)


@dataclass(frozen=True)
class BranchSnapshot:
    """The branch as it was at one moment: path → object id, and the repository that has the objects.

    ``unfit`` says which of the files are none that is read, and why.
    """

    repository: DataRepository
    files: Mapping[str, str]
    unfit: Mapping[str, str]


class BranchPlace(RecordPlace):
    """The files of a branch, of which there are none before the branch is made: whoever is the first to put makes it.

    Each :meth:`put_all` adds one commit; writers never need to know of each other.
    """

    def __init__(self, branch: str, remote: Remote, access: PlaceAccess) -> None:
        self._branch, self._remote, self._access = branch, remote, access
        self._snapshot: BranchSnapshot | None = None
        self.name = without_secrets(f"branch:{branch}@{remote.url}")

    @classmethod
    def at(cls, target: str, access: PlaceAccess) -> BranchPlace:
        """The place at ``branch:NAME[@REMOTE]``: ``origin`` or another remote of the checkout here, a URL or a path.

        Raises :class:`UsageError`.
        """
        branch, _, remote = target.removeprefix("branch:").partition("@")
        check_keys([branch])
        return cls(branch, locate_remote(remote or "origin", access), access)

    def put(self, key: str, body: bytes) -> PutResult:
        outcome = self.put_all({key: body})[key]
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def put_all(self, bodies: Mapping[str, bytes]) -> dict[str, PutOutcome]:
        check_keys(bodies)
        deadline = self._deadline()
        try:
            with tempfile.TemporaryDirectory(prefix="torchperf-", ignore_cleanup_errors=True) as folder:
                repository = DataRepository.create(Path(folder), self._branch, self._remote, deadline)
                return self._deliver(repository, bodies, deadline)
        except GitError as error:
            msg = (
                f"{self.name}: {error}; check that the repository is there and that this job may write to it"
            )
            return dict.fromkeys(bodies, NotDeliveredError(msg))

    def keys(self) -> Iterator[str]:
        self._snapshot = self._take()
        yield from sorted(self._snapshot.files)

    def get(self, key: str) -> bytes:
        """From the state that :meth:`keys` saw last."""
        snapshot = self._snapshot = self._snapshot or self._take()
        if key not in snapshot.files:
            msg = f"{self.name}: there is no file {key!r}"
            raise PlaceUnreadableError(msg)
        if key in snapshot.unfit:
            where = f"{self.name}: {key}"
            raise UnfitObjectError(where, snapshot.unfit[key])
        git = replace(snapshot.repository.git, deadline=self._deadline())
        try:
            return replace(snapshot.repository, git=git).read(snapshot.files[key])
        except GitError as error:
            msg = f"{self.name}: {key}: {error}"
            raise PlaceUnreadableError(msg) from error

    def _deadline(self) -> Deadline:
        return Deadline.after(self._access.deadline)

    def _take(self) -> BranchSnapshot:
        folder = Path(tempfile.mkdtemp(prefix="torchperf-"))
        try:
            repository = DataRepository.create(folder, self._branch, self._remote, self._deadline())
            tip = repository.fetch(contents=True)
            found = (repository.files(tip), repository.unfit(tip)) if tip else ({}, {})
            snapshot = BranchSnapshot(repository, *found)
        except GitError as error:
            shutil.rmtree(folder, ignore_errors=True)
            msg = f"{self.name}: {error}; check that the repository is there and that this job may read it"
            raise PlaceUnreadableError(msg) from error
        weakref.finalize(snapshot, shutil.rmtree, folder, ignore_errors=True)
        return snapshot

    def _deliver(
        self, repository: DataRepository, bodies: Mapping[str, bytes], deadline: Deadline
    ) -> dict[str, PutOutcome]:
        """Add what is new on top of the branch's end, again and again while others are faster or nobody answers."""
        problem = ""
        for _ in deadline.tries():
            tip = None
            try:
                tip = repository.fetch(contents=False)
                outcomes = self._compare(repository, tip, bodies)
                new = {key: bodies[key] for key, outcome in outcomes.items() if outcome == "written"}
                if new:
                    repository.commit(new, tip)
                    repository.push(tip)
            except GitError as error:
                if not deadline.left:
                    problem = problem or str(error)
                    break
                problem = str(error)
                if not (error.may_pass or _moved(repository, tip)):
                    raise
            else:
                return outcomes
        msg = f"the time is up; at last {problem}"
        raise GitError(msg)

    def _compare(
        self, repository: DataRepository, tip: str, bodies: Mapping[str, bytes]
    ) -> dict[str, PutOutcome]:
        """What becomes of each body if nobody is faster."""
        kept = repository.files(tip) if tip else {}
        files, folders = set(kept), {folder for path in kept for folder in _folders(path)}
        outcomes: dict[str, PutOutcome] = {}
        for key, body in bodies.items():
            if key in kept:
                outcomes[key] = self._compare_kept(repository, key, kept[key], body)
            elif key in folders or files & _folders(key):
                msg = f"{self.name}: {key}: a file stands where a folder is needed, or the other way round"
                outcomes[key] = ConflictError(msg)
            else:
                outcomes[key] = "written"
                files.add(key)
                folders |= _folders(key)
        return outcomes

    def _compare_kept(self, repository: DataRepository, key: str, kept: str, body: bytes) -> PutOutcome:
        if kept == blob_id(body) or same_content(body, repository.read(kept)):
            return "already there"
        return ConflictError(
            f"{self.name}: {key}: other content is already kept there; it was not overwritten"
        )


def _moved(repository: DataRepository, tip: str | None) -> bool:
    """Whether the branch is no longer as it was, however a server says so."""
    return tip is not None and repository.tip() != tip


def _folders(path: str) -> set[str]:
    return {str(folder) for folder in PurePosixPath(path).parents}
