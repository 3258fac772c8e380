"""A branch of a git repository as a place: history without any infrastructure."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from torchperf_ci.deadline import Deadline
from torchperf_ci.errors import ConflictError, NotDeliveredError, PlaceUnreadableError, UnfitObjectError
from torchperf_ci.git import GitError, without_secrets
from torchperf_ci.places.base import Outcome, Place, Put
from torchperf_ci.places.content import same_content
from torchperf_ci.places.data_repository import DataRepository, blob_id
from torchperf_ci.places.keys import check_keys
from torchperf_ci.places.remotes import Remote, locate

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from torchperf_ci.places.access import Access


@dataclass(frozen=True)
class Snapshot:
    """The branch as it was at one moment: path → object id, and the repository that has the objects.

    ``unfit`` says which of the files are none that is read, and why.
    """

    repository: DataRepository
    files: Mapping[str, str]
    unfit: Mapping[str, str]


class BranchPlace(Place):
    """The files of a branch, of which there are none before the branch is made: whoever is the first to put makes it.

    Each :meth:`put_all` adds one commit; writers never need to know of each other.
    """

    def __init__(self, branch: str, remote: Remote, access: Access) -> None:
        self._branch, self._remote, self._access = branch, remote, access
        self._snapshot: Snapshot | None = None
        self.name = without_secrets(f"branch:{branch}@{remote.url}")

    @classmethod
    def at(cls, target: str, access: Access) -> BranchPlace:
        """The place at ``branch:NAME[@REMOTE]``: ``origin`` or another remote of the checkout here, a URL or a path.

        Raises :class:`UsageError`.
        """
        branch, _, remote = target.removeprefix("branch:").partition("@")
        check_keys([branch])
        return cls(branch, locate(remote or "origin", access), access)

    def put(self, key: str, body: bytes) -> Put:
        outcome = self.put_all({key: body})[key]
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def put_all(self, bodies: Mapping[str, bytes]) -> dict[str, Outcome]:
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

    def _take(self) -> Snapshot:
        folder = Path(tempfile.mkdtemp(prefix="torchperf-"))
        try:
            repository = DataRepository.create(folder, self._branch, self._remote, self._deadline())
            tip = repository.fetch(contents=True)
            found = (repository.files(tip), repository.unfit(tip)) if tip else ({}, {})
            snapshot = Snapshot(repository, *found)
        except GitError as error:
            shutil.rmtree(folder, ignore_errors=True)
            msg = f"{self.name}: {error}; check that the repository is there and that this job may read it"
            raise PlaceUnreadableError(msg) from error
        weakref.finalize(snapshot, shutil.rmtree, folder, ignore_errors=True)
        return snapshot

    def _deliver(
        self, repository: DataRepository, bodies: Mapping[str, bytes], deadline: Deadline
    ) -> dict[str, Outcome]:
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
    ) -> dict[str, Outcome]:
        """What becomes of each body if nobody is faster."""
        kept = repository.files(tip) if tip else {}
        files, folders = set(kept), {folder for path in kept for folder in _folders(path)}
        outcomes: dict[str, Outcome] = {}
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

    def _compare_kept(self, repository: DataRepository, key: str, kept: str, body: bytes) -> Outcome:
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
