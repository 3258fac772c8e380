"""What every place has in common: its interface, its keys, when two contents are the same, and credentials."""

from __future__ import annotations

import gzip
import hashlib
import io
import re
import zlib
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from torchperf_ci.errors import ConflictError, CredentialsError, NotDeliveredError, UnsafeKeyError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping


def _ignore_secret(_secret: str) -> None:
    """Outside a job there is no log to keep secrets out of."""


@dataclass(frozen=True)
class PlaceAccess:
    """Credentials and limits. The default is what the machine has by itself, or anonymous where it has nothing.

    ``mask`` is told each secret that is obtained, before it is used, so that a job's log never shows it.
    """

    deadline: float = 300.0
    """Most seconds that one call of a place may take, retries included."""

    region: str | None = None
    endpoint: str | None = None
    """URL of another S3 than that of AWS; else ``AWS_ENDPOINT_URL`` holds, as everywhere."""

    role: str | None = None
    """ARN of a role to assume with the job's OIDC token; needs ``id-token: write``."""

    session_name: str = "torchperf"
    duration: int = 3600
    """Seconds that the role's credentials last; 900 to the role's own maximum. They are renewed in time."""

    audience: str = "sts.amazonaws.com"

    git_token: str = field(default="", repr=False)
    """Token for the job's own GitHub server; else git finds credentials as it always does."""

    mask: Callable[[str], None] = field(default=_ignore_secret, repr=False)


@dataclass(frozen=True)
class UploaderCredentials:
    """Name and password for an upload API."""

    username: str
    password: str = field(repr=False)

    @classmethod
    def of(cls, environ: Mapping[str, str], mask: Callable[[str], None]) -> UploaderCredentials:
        """From ``UPLOADER_USERNAME`` and ``UPLOADER_PASSWORD``; raises :class:`CredentialsError` without them."""
        username, password = environ.get("UPLOADER_USERNAME", ""), environ.get("UPLOADER_PASSWORD", "")
        if not (username and password):
            msg = "an upload API needs credentials: set UPLOADER_USERNAME and UPLOADER_PASSWORD"
            raise CredentialsError(msg)
        mask(password)
        return cls(username, password)


def is_gzip(body: bytes) -> bool:
    """Whether ``body`` says that it is compressed."""
    return body.startswith(b"\x1f\x8b")


def same_content(body: bytes, kept: bytes) -> bool:
    """Whether what is ``kept`` holds the same bytes as ``body``, compressed or not.

    Two versions of zlib compress the same text differently, and what is resumed on another machine is still the same.
    """
    if body == kept:
        return True
    content = unpacked(body, -1)
    return content == unpacked(kept, len(content) + 1)


def unpacked(body: bytes, limit: int) -> bytes:
    """At most ``limit`` bytes of what ``body`` holds: what others have kept may unpack to any size."""
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

    Safe is a relative path of letters and digits of ASCII and ``. _ = -``: no place, URL, glob, shell or database
    reads anything into these. A part is not empty, not ``.`` or ``..``, and not ``.git``, which git does not take.
    """
    for key in keys:
        problem = _key_problem(key)
        if problem:
            msg = (
                f"{key!r} cannot be the key of an object: {problem}; "
                "use a relative path of the letters and digits of ASCII and . _ = -"
            )
            raise UnsafeKeyError(msg)


def is_safe_key(key: str) -> bool:
    """Whether :func:`check_keys` passes it."""
    return not _key_problem(key)


def _key_problem(key: str) -> str:
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
PutOutcome = PutResult | ConflictError | NotDeliveredError
"""What became of one of several objects; an error is given back, not raised, since the others go on."""


@dataclass(frozen=True)
class PlacedObject:
    """An object that lies somewhere. ``tag`` stands for its content; ``unfit`` says why it has none."""

    key: str
    tag: str
    body: bytes
    unfit: str = ""

    @classmethod
    def of(cls, key: str, body: bytes) -> PlacedObject:
        """An object whose tag is the digest of its body."""
        return cls(key, f"sha256:{hashlib.sha256(body).hexdigest()}", body)

    @property
    def size(self) -> int:
        """Bytes."""
        return len(self.body)


class RecordPlace(ABC):
    """Somewhere to keep immutable objects by key; ``name`` says where, for people, without any credential.

    A key is a relative path of safe characters (see :mod:`torchperf_ci.places.place`),
    ``v3/{repo}/{workflow_id}/{job_id}/{file}``.
    """

    name: str

    @abstractmethod
    def put(self, key: str, body: bytes) -> PutResult:
        """Keep ``body`` under ``key``, unless something is there already: whoever comes first wins, without a race.

        The same content already there is success. Raises :class:`ConflictError` for different content,
        :class:`NotDeliveredError` when the place cannot be reached or refuses within its deadline, and
        :class:`UnsafeKeyError` for a key that is no safe relative path.
        """

    def put_all(self, bodies: Mapping[str, bytes]) -> dict[str, PutOutcome]:
        """:meth:`put` each body under its key, under one deadline; one that fails does not stop the others.

        Raises :class:`UnsafeKeyError`, and then nothing is written.
        """
        check_keys(bodies)
        return {key: self._outcome(key, body) for key, body in bodies.items()}

    def _outcome(self, key: str, body: bytes) -> PutOutcome:
        try:
            return self.put(key, body)
        except (ConflictError, NotDeliveredError) as error:
            return error

    @abstractmethod
    def keys(self) -> Iterator[str]:
        """All keys, each once, in the place's own order. Raises :class:`PlaceUnreadableError`."""

    @abstractmethod
    def get(self, key: str) -> bytes:
        """What was put under ``key``, to the byte.

        Raises :class:`PlaceUnreadableError`, also for an unknown key, and its :class:`UnfitObjectError` for what is no
        object of records, but too large or a link.
        """
