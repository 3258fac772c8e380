"""The interface of places for record files, what they share, and the simplest one: a directory.

A directory serves on a laptop, on a shared disk, and as an artifact.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import math
import os
import re
import secrets
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Literal, Protocol, TypeVar

from torchperf_ci import errors
from torchperf_ci.records.files import MAX_BYTES, is_gzip, read_regular
from torchperf_ci.records.schema import is_text


@dataclass(frozen=True)
class PlaceAccess:
    """Credentials and limits. The default is the machine's own credentials, or anonymous access if it has none.

    ``mask`` is called with each secret before its first use, so that a job's log never shows it.
    """

    deadline: float = 300.0
    """Most seconds that one call to a place may take, retries included."""

    region: str | None = None
    endpoint: str | None = None
    """URL of an S3 service other than AWS; by default that of ``AWS_ENDPOINT_URL``."""

    role: str | None = None
    """ARN of a role to assume with the job's OIDC token; needs ``id-token: write``."""

    session_name: str = "torchperf"
    duration: int = 3600
    """Lifetime of the role's credentials in seconds, from 900 to the role's maximum; they are renewed in time."""

    git_token: str = field(default="", repr=False)
    """Token for the job's own GitHub server; without one git looks for credentials as usual."""

    mask: Callable[[str], None] = field(default=lambda _secret: None, repr=False)
    """By default nothing: outside of a job there is no log that could expose secrets."""


@dataclass(frozen=True)
class UploaderCredentials:
    """Name and password for an upload API."""

    username: str
    password: str = field(repr=False)

    @classmethod
    def of(cls, environ: Mapping[str, str], mask: Callable[[str], None]) -> UploaderCredentials:
        """Read ``UPLOADER_USERNAME`` and ``UPLOADER_PASSWORD``. Raises :class:`CredentialsError` if unusable."""
        username, password = environ.get("UPLOADER_USERNAME", ""), environ.get("UPLOADER_PASSWORD", "")
        if not (username and password and is_text(username + password)):
            msg = (
                "an upload API needs credentials: set UPLOADER_USERNAME and UPLOADER_PASSWORD, both in UTF-8"
            )
            raise errors.CredentialsError(msg)
        mask(password)
        return cls(username, password)


def same_content(body: bytes, kept: bytes) -> bool:
    """Whether ``kept`` and ``body`` are the same once decompressed.

    Versions of zlib compress the same text differently, and an upload may be resumed on another machine.
    """
    if body == kept:
        return True
    content = unpacked(body, -1)
    return content == unpacked(kept, len(content) + 1)


def unpacked(body: bytes, limit: int) -> bytes:
    """Return at most ``limit`` bytes of the decompressed ``body``, which may come from others and have any size."""
    if not is_gzip(body):
        return body
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(body)) as file:
            return file.read(limit)
    except (OSError, EOFError, zlib.error):
        return body


MAX_KEY = 1024  # of S3, in bytes
MAX_PART = 255 - 32  # of common file systems, less room for the name of a temporary file

_UNSAFE_IN_KEY = re.compile(r"[^A-Za-z0-9._=-]")


def check_keys(keys: Iterable[str]) -> None:
    """Raise :class:`UnsafeKeyError` for the first key that is not safe everywhere.

    A safe key is a relative path of ASCII letters, digits and ``. _ = -``, which have no special meaning to any place,
    URL, glob, shell or database. No part is empty, ``.``, ``..`` or ``.git``, which git refuses.
    """
    for key in keys:
        problem = key_problem(key)
        if problem:
            msg = (
                f"{key!r} cannot be the key of an object: {problem}; "
                "use a relative path of the letters and digits of ASCII and . _ = -"
            )
            raise errors.UnsafeKeyError(msg)


def key_problem(key: str) -> str:
    """Return why :func:`check_keys` refuses the key; empty if it is safe."""
    if len(key) > MAX_KEY:
        return f"it is longer than {MAX_KEY} characters"
    for part in key.split("/"):
        if part in {"", ".", ".."} or part.lower() == ".git":
            return f"{part!r} cannot be a part of it"
        if len(part) > MAX_PART:
            return f"a part is longer than {MAX_PART} characters"
        unsafe = _UNSAFE_IN_KEY.search(part)
        if unsafe:
            return f"it holds {unsafe[0]!r}"
    return ""


PutResult = Literal["written", "already there"]
PutOutcome = PutResult | errors.ConflictError | errors.NotDeliveredError
"""The outcome for one of several objects; an error is returned instead of raised, so that the others continue."""


def outcome_of(put: Callable[[str, bytes], PutResult], key: str, body: bytes) -> PutOutcome:
    """Put one of several objects."""
    try:
        return put(key, body)
    except (errors.ConflictError, errors.NotDeliveredError) as error:
        return error


def compared(where: str, body: bytes, kept: bytes) -> PutResult:
    """Return the result for a key that exists. Raises :class:`ConflictError` unless its content is the same."""
    if same_content(body, kept):
        return "already there"
    raise errors.ConflictError(f"{where}: other content is already kept there; it was not overwritten")


@dataclass(frozen=True, order=True)
class ListedObject:
    """An object in a bucket or of git. ``tag``, an ETag of a bucket, identifies its content; ``size`` is in bytes."""

    key: str
    tag: str
    size: int


@dataclass(frozen=True)
class PlacedObject:
    """An object in a place. ``tag`` identifies its content; ``unfit`` is the reason if the content cannot be used."""

    key: str
    tag: str
    body: bytes
    unfit: str = ""

    @classmethod
    def of(cls, key: str, body: bytes) -> PlacedObject:
        """Return the object with the digest of its body as the tag."""
        return cls(key, f"sha256:{hashlib.sha256(body).hexdigest()}", body)

    @property
    def size(self) -> int:
        """Size of the body in bytes."""
        return len(self.body)


class _Sized(Protocol):
    @property
    def size(self) -> float: ...


_Object = TypeVar("_Object", bound=_Sized)


def in_batches(
    objects: Iterable[_Object], most_size: float, most_objects: float = math.inf
) -> Iterator[list[_Object]]:
    """Group objects so that no group exceeds a limit, unless it is a single larger object."""
    batch: list[_Object] = []
    size = 0.0
    for item in objects:
        if batch and (len(batch) >= most_objects or size + item.size > most_size):
            yield batch
            batch, size = [], 0.0
        batch.append(item)
        size += item.size
    if batch:
        yield batch


class RecordPlace(ABC):
    """A place for immutable objects, by key. ``name`` describes it for people, without credentials.

    Each kind is read in a way of its own (:func:`torchperf_ci.store.ingest.ingest_place`).


    A key is a relative path of safe characters (see :func:`check_keys`), such as
    ``v3/{repo}/{workflow_id}/{job_id}/{file}``.
    """

    name: str

    @abstractmethod
    def put_all(self, bodies: Mapping[str, bytes]) -> dict[str, PutOutcome]:
        """Store each body under its key unless the key exists: of concurrent writers exactly the first one succeeds.

        An existing object with the same content counts as success; the outcome is :class:`ConflictError` for different
        content, and :class:`NotDeliveredError` if the place cannot be reached or refuses. There is one deadline for
        all, and a failure does not stop the others. Raises :class:`UnsafeKeyError` before anything is written.
        """

    def put(self, key: str, body: bytes) -> PutResult:
        """Store one body as :meth:`put_all` does, and raise its outcome if that is an error."""
        outcome = self.put_all({key: body})[key]
        if isinstance(outcome, Exception):
            raise outcome
        return outcome


TEMPORARY = "~"
"""Suffix of temporary files; no key can end with it."""


class DirectoryPlace(RecordPlace):
    """One file per object, at the key's path below the directory, which is created by the first put."""

    def __init__(self, directory: str | Path) -> None:
        self._root = Path(directory)
        self.name = str(directory)

    def put_all(self, bodies: Mapping[str, bytes]) -> dict[str, PutOutcome]:
        check_keys(bodies)
        return {key: outcome_of(self._put, key, body) for key, body in bodies.items()}

    def _put(self, key: str, body: bytes) -> PutResult:
        path = self._root / key
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            is_new = _create(path, body)
            _sync(path.parent)
            return "written" if is_new else compared(str(path), body, read_regular(path, MAX_BYTES))
        except (FileExistsError, IsADirectoryError, NotADirectoryError) as error:
            msg = f"{path}: a file stands where a directory is needed, or the other way round; nothing was overwritten"
            raise errors.ConflictError(msg) from error
        except OSError as error:
            msg = f"{path}: cannot be written: {error.strerror}; choose a directory that is writable and has hard links"
            raise errors.NotDeliveredError(msg) from error

    def keys(self) -> Iterator[str]:
        """Yield all files except git's own. Links to folders are skipped: they may lead out of the directory.

        Raises :class:`PlaceUnreadableError`.
        """
        if not self._root.is_dir():
            raise errors.PlaceUnreadableError(f"{self.name}: there is no such directory")
        yield from sorted(self._walk())

    def _walk(self) -> Iterator[str]:
        for folder, folders, files in os.walk(self._root, onerror=self._unreadable):
            folders[:] = [name for name in folders if name != ".git"]
            for name in files:
                if not name.endswith(TEMPORARY):
                    yield Path(folder, name).relative_to(self._root).as_posix()

    def _unreadable(self, error: OSError) -> None:
        raise errors.PlaceUnreadableError(f"{error.filename}: cannot be read: {error.strerror}") from error

    def get(self, key: str) -> bytes:
        """Return the exact content that was put under ``key``.

        Raises :class:`PlaceUnreadableError` for a key that leads elsewhere, and :class:`InvalidObjectError` for what
        is not there, too large or a link.
        """
        relative = PurePosixPath(key)
        if relative.is_absolute() or ".." in relative.parts:
            raise errors.PlaceUnreadableError(f"{key!r} leads out of {self.name}")
        path = self._root / relative
        with errors.failing_as(partial(errors.InvalidObjectError, str(path)), "cannot be read: "):
            return read_regular(path, MAX_BYTES, self._root)


def _create(path: Path, body: bytes) -> bool:
    """Create ``path`` with its whole content atomically; return False if it exists.

    Done by a hard link, which unlike renaming fails if the path exists.
    """
    temporary = path.with_name(f"{path.name}.{secrets.token_hex(8)}{TEMPORARY}")
    try:
        with temporary.open("xb") as file:
            file.write(body)
            file.flush()
            os.fsync(file.fileno())
        os.link(temporary, path)
    except FileExistsError:
        return False
    finally:
        temporary.unlink(missing_ok=True)
    return True


def _sync(folder: Path) -> None:
    """Wait until the names in a folder survive a power failure; some file systems do not offer that."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):
            os.fsync(descriptor)
    finally:
        os.close(descriptor)
