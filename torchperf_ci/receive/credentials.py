"""Check the credentials of clients."""

from __future__ import annotations

import hashlib
import hmac
from typing import TYPE_CHECKING

from torchperf_ci.errors import UsageError
from torchperf_ci.places.place import UploaderCredentials

if TYPE_CHECKING:
    from collections.abc import Mapping


def accepted_credentials(environ: Mapping[str, str]) -> UploaderCredentials:
    """Return the credentials that uploaders must send. Raises :class:`UsageError` if the environment has none."""
    username, password = environ.get("UPLOADER_USERNAME", ""), environ.get("UPLOADER_PASSWORD", "")
    if not (username and password):
        msg = "nobody could upload: set UPLOADER_USERNAME and UPLOADER_PASSWORD to what uploaders will send"
        raise UsageError(msg)
    return UploaderCredentials(username, password)


def are_equal(given: tuple[object, object], accepted: tuple[str, str]) -> bool:
    """Whether a user name and a password are the ``accepted`` ones, compared in constant time.

    Both are always compared, so that the time does not reveal which of them is wrong.
    """
    username, password = given
    return _equal(username, accepted[0]) & _equal(password, accepted[1])


def _equal(given: object, expected: str) -> bool:
    """Compare digests, because comparing the texts would reveal their length through the time it takes."""
    return hmac.compare_digest(_digest(given if isinstance(given, str) else ""), _digest(expected))


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
