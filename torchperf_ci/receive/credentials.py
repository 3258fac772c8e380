"""Names and passwords of those who may do something here."""

from __future__ import annotations

import hashlib
import hmac
from typing import TYPE_CHECKING

from torchperf_ci.errors import UsageError
from torchperf_ci.places.place import UploaderCredentials

if TYPE_CHECKING:
    from collections.abc import Mapping


def accepted_credentials(environ: Mapping[str, str]) -> UploaderCredentials:
    """What uploaders have to send. Raises :class:`UsageError` where the environment does not say."""
    username, password = environ.get("UPLOADER_USERNAME", ""), environ.get("UPLOADER_PASSWORD", "")
    if not (username and password):
        msg = "nobody could upload: set UPLOADER_USERNAME and UPLOADER_PASSWORD to what uploaders will send"
        raise UsageError(msg)
    return UploaderCredentials(username, password)


def are_equal(given: tuple[object, object], accepted: tuple[str, str]) -> bool:
    """Whether a name and a password are the ``accepted`` ones, in constant time.

    Both are compared, whatever the first comparison gave: the time does not tell which of the two is wrong.
    """
    username, password = given
    return _equal(username, accepted[0]) & _equal(password, accepted[1])


def _equal(given: object, expected: str) -> bool:
    """By digests, since the time of comparing the texts would tell their length."""
    return hmac.compare_digest(_digest(given if isinstance(given, str) else ""), _digest(expected))


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
