"""A git branch as a place for records: history without any infrastructure.

The user's checkout, index, stash, references and hooks are never touched. Old files lie in packs
(:mod:`torchperf_ci.places.packs`), whose files this place reads as if they lay on the branch.
"""

from __future__ import annotations

import re
import weakref
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, TypeVar

from torchperf_ci import errors
from torchperf_ci.deadline import Deadline
from torchperf_ci.git import GitError
from torchperf_ci.masking import without_secrets
from torchperf_ci.places import place
from torchperf_ci.places.branch_name import BRANCH_FORM, BRANCH_NAME
from torchperf_ci.places.data_repository import BranchFile, DataRepository, Remote, blob_id, locate_remote
from torchperf_ci.places.packs import (
    INDEX,
    BranchPacking,
    PackOutcome,
    folder_of,
    is_pack,
    read_index,
    read_pack,
)
from torchperf_ci.records.files import LINK, MAX_BYTES, mebibytes
from torchperf_ci.scratch import scratch_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from torchperf_ci.places.place import PlaceAccess

_Result = TypeVar("_Result")
_READS = 5
"""How often reading is tried while the remote is overloaded or cannot be reached."""
_READ_AT_ONCE = 500
"""Files that share one deadline when they are read."""


@dataclass(frozen=True)
class BranchSnapshot:
    """The branch at one moment: its files, and the repository that fetches their contents."""

    repository: DataRepository
    files: Mapping[str, BranchFile]


class BranchPlace(place.RecordPlace):
    """The files of a branch, which the first put creates if it does not exist.

    Each :meth:`put_all` adds one commit; concurrent writers need not know of each other.
    """

    def __init__(self, branch: str, remote: Remote, access: PlaceAccess) -> None:
        self._branch, self._remote, self._access = branch, remote, access
        self._snapshot: BranchSnapshot | None = None
        self.name = without_secrets(f"branch:{branch}@{remote.url}")

    @classmethod
    def at(cls, target: str, access: PlaceAccess) -> BranchPlace:
        """Return the place at ``branch:NAME[@REMOTE]``.

        The remote is one of the checkout in the working directory (default ``origin``), a URL or a path. Raises
        :class:`UsageError`.
        """
        branch, _, remote = target.removeprefix("branch:").partition("@")
        problem = place.key_problem(branch) or ("" if re.fullmatch(BRANCH_NAME, branch) else "git refuses it")
        if problem:
            form = f"branch:NAME[@REMOTE] with a NAME {BRANCH_FORM}"
            raise errors.UsageError(f"'branch:{branch}' names no branch for records: {problem}; give {form}")
        return cls(branch, locate_remote(remote or "origin", access), access)

    def put_all(self, bodies: Mapping[str, bytes]) -> dict[str, place.PutOutcome]:
        place.check_keys(bodies)

        def add(repository: DataRepository, tip: str) -> dict[str, place.PutOutcome]:
            outcomes = self._compare(repository, tip, bodies)
            new = {key: bodies[key] for key, outcome in outcomes.items() if outcome == "written"}
            if new:
                repository.commit(new, tip)
                repository.push(tip)
            return outcomes

        try:
            return self._change(add)
        except errors.NotDeliveredError as error:
            return dict.fromkeys(bodies, error)

    def pack(self, first_kept: str) -> PackOutcome:
        """Move the files of months before ``first_kept`` (``YYYY-MM``) into packs, one per month.

        A single push replaces the files by the packs, so this may be killed at any moment, and may run concurrently
        with uploads and with itself. Raises :class:`NotDeliveredError`, and :class:`UsageError` without a branch.
        """

        def replace_old(repository: DataRepository, tip: str) -> PackOutcome:
            if not tip:
                msg = f"{self.name}: there is no such branch to pack; correct its name (the first upload creates it)"
                raise errors.UsageError(msg)
            packing = BranchPacking(repository, tip, repository.files(tip), first_kept)
            outcome = packing.prepare(self._committers)
            try:
                if outcome.files:
                    repository.push(tip)
            except GitError as error:
                if error.may_pass or _has_moved(repository, tip):
                    raise
                packing.prepare(set)  # a rule may forbid force-pushes, so keep the history
                repository.push(tip)
            return outcome

        return self._change(replace_old)

    def listed(self) -> dict[str, str]:
        """Return the tag of the content by key, of all objects on the branch now; a pack is listed as one object.

        Raises :class:`PlaceUnreadableError`.
        """
        self._snapshot = self._take()
        return {key: f"git:{file.blob}" for key, file in self._snapshot.files.items() if key != INDEX}

    def read(self, keys: Sequence[str]) -> Iterator[place.PlacedObject]:
        """Yield the objects of these keys in the state that was listed last; for a pack, the files in it.

        Raises :class:`PlaceUnreadableError`.
        """
        snapshot = self._snapshot = self._snapshot or self._take()
        regular = [key for key in keys if not snapshot.files[key].is_link]
        yield from (
            place.PlacedObject(key, f"git:{snapshot.files[key].blob}", b"", LINK)
            for key in {*keys} - {*regular}
        )
        blobs = {key: snapshot.files[key].blob for key in regular}
        with errors.failing_as(errors.PlaceUnreadableError, f"{self.name}: ", of=GitError):
            deadline = self._deadline()
            _read(lambda: snapshot.repository.until(deadline).bring(blobs.values()), deadline)
            for start in range(0, len(regular), _READ_AT_ONCE):  # the consumer may be slow
                part = regular[start : start + _READ_AT_ONCE]
                contents = snapshot.repository.until(self._deadline()).read_all([blobs[key] for key in part])
                for key, body in zip(part, contents, strict=True):
                    yield from _objects(key, f"git:{blobs[key]}", body)

    def _deadline(self) -> Deadline:
        return Deadline.after(self._access.deadline)

    def _take(self) -> BranchSnapshot:
        with ExitStack() as stack:
            folder = stack.enter_context(scratch_folder())
            try:
                deadline = self._deadline()
                repository = DataRepository.create(folder, self._branch, self._remote, deadline)
                tip = _read(repository.fetch, deadline)
                snapshot = BranchSnapshot(repository, repository.files(tip) if tip else {})
            except GitError as error:
                msg = f"{self.name}: {error}; {_advice(error, 'read')}"
                raise errors.PlaceUnreadableError(msg) from error
            weakref.finalize(snapshot, stack.pop_all().close)
            return snapshot

    def _committers(self) -> set[str]:
        with scratch_folder() as folder:
            deadline = self._deadline()
            return DataRepository.create(folder, self._branch, self._remote, deadline).committers()

    def _change(self, change: Callable[[DataRepository, str], _Result]) -> _Result:
        """Apply ``change`` to the tip of the branch; retry if another writer is faster or the remote does not answer.

        Raises :class:`NotDeliveredError`.
        """
        deadline = self._deadline()
        try:
            with scratch_folder() as folder:
                repository = DataRepository.create(folder, self._branch, self._remote, deadline)
                return _on_top(repository, change, deadline)
        except GitError as error:
            raise errors.NotDeliveredError(f"{self.name}: {error}; {_advice(error, 'write to')}") from error

    def _compare(
        self, repository: DataRepository, tip: str, bodies: Mapping[str, bytes]
    ) -> dict[str, place.PutOutcome]:
        """Return the outcome for each body, provided that no other writer is faster."""
        kept = repository.files(tip) if tip else {}
        packed = _packed(repository, kept, bodies)
        files, folders = set(kept), set(map(folder_of, kept))
        folders = folders.union(*map(_folders, folders))
        outcomes: dict[str, place.PutOutcome] = {}
        for key, body in bodies.items():
            where = f"{self.name}: {key}"
            if key in kept and kept[key].blob == blob_id(body):
                outcomes[key] = "already there"
            elif key in kept or key in packed:
                content = packed[key] if key in packed else repository.read(kept[key].blob)
                outcomes[key] = place.outcome_of(partial(place.compared, kept=content), where, body)
            elif key in folders or files & _folders(key):
                msg = f"{where}: a file stands where a folder is needed, or the other way round"
                outcomes[key] = errors.ConflictError(msg)
            else:
                outcomes[key] = "written"
                files.add(key)
                folders |= _folders(key)
        return outcomes


def _read(read: Callable[[], _Result], deadline: Deadline) -> _Result:
    """Return what ``read`` returns, which is tried a few times if the remote may answer soon."""
    problem = GitError()
    for _ in deadline.tries(_READS):
        try:
            return read()
        except GitError as error:
            if not error.may_pass:
                raise
            problem = error
    raise problem


def _on_top(
    repository: DataRepository, change: Callable[[DataRepository, str], _Result], deadline: Deadline
) -> _Result:
    problem = ""
    for _ in deadline.tries():
        tip = None
        try:
            tip = repository.fetch()
            return change(repository, tip)
        except GitError as error:
            if not deadline.left:
                problem = problem or str(error)
                break
            problem = str(error)
            if not (error.may_pass or _has_moved(repository, tip)):
                raise
    raise GitError(f"the time is up; at last {problem}")


def _has_moved(repository: DataRepository, tip: str | None) -> bool:
    """Whether the branch has moved meanwhile; servers report the rejected push in different ways."""
    return tip is not None and repository.tip() != tip


def _advice(error: GitError, use: str) -> str:
    if "algorithm" in str(error):
        return "its objects are named by SHA-256: keep records in a repository with git's default, SHA-1"
    if "dumb http" in str(error):
        return "what answers is no git server of today: correct the address, or see what stands before the server"
    return f"check that the repository is there and that this job may {use} it"


def _objects(key: str, tag: str, body: bytes | None) -> Iterator[place.PlacedObject]:
    """Yield an object of the branch, or the files in it if it is a pack."""
    if body is None:
        yield place.PlacedObject(key, tag, b"", f"holds more than {mebibytes(MAX_BYTES)}; split it")
    elif not is_pack(key):
        yield place.PlacedObject(key, tag, body)
    else:
        try:
            yield from read_pack(key, body)
        except errors.InvalidObjectError as error:
            yield place.PlacedObject(key, tag, b"", error.reason)


def _packed(
    repository: DataRepository, files: Mapping[str, BranchFile], keys: Iterable[str]
) -> dict[str, bytes]:
    """Return the contents of the keys that are in packs, reading only packs with files of the same folders."""
    if INDEX not in files:
        return {}
    index = read_index(repository.read(files[INDEX].blob))
    wanted = set(keys)
    packs = {pack for key in wanted for pack in index.get(folder_of(key), ())} & files.keys()
    objects = (
        file for pack in sorted(packs) for file in _objects(pack, "", repository.read(files[pack].blob))
    )
    return {file.key: file.body for file in objects if file.key in wanted and not file.unfit}


def _folders(path: str) -> set[str]:
    return {str(folder) for folder in PurePosixPath(path).parents}
