"""Which keys an object may have: alike for every place, so that what one takes can be copied to any other."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from torchperf_ci.errors import UnsafeKeyError

if TYPE_CHECKING:
    from collections.abc import Iterable

MAX_KEY = 1024  # of S3, in bytes
MAX_PART = 255 - 32  # of common file systems, less room for the name of a temporary file

_UNSAFE = re.compile(r"[^A-Za-z0-9._=-]")


def check_keys(keys: Iterable[str]) -> None:
    """Raise :class:`UnsafeKeyError` for the first key that is not safe everywhere.

    Safe is a relative path of letters and digits of ASCII and ``. _ = -``: no place, URL, glob, shell or database
    reads anything into these. A part is not empty, not ``.`` or ``..``, and not ``.git``, which git does not take.
    """
    for key in keys:
        problem = _problem(key)
        if problem:
            msg = (
                f"{key!r} cannot be the key of an object: {problem}; "
                "use a relative path of the letters and digits of ASCII and . _ = -"
            )
            raise UnsafeKeyError(msg)


def _problem(key: str) -> str:
    if len(key) > MAX_KEY:
        return f"it is longer than {MAX_KEY} characters"
    for part in key.split("/"):
        if part in {"", ".", ".."} or part.lower() == ".git":
            return f"{part!r} cannot be a part of it"
        if len(part) > MAX_PART:
            return f"a part is longer than {MAX_PART} characters"
        unsafe = _UNSAFE.search(part)
        if unsafe:
            return f"it holds {unsafe[0]!r}"
    return ""
