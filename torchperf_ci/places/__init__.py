"""Where record files are kept: a directory, an S3 bucket, a data branch. Upload writes there, ingest reads there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchperf_ci.errors import UsageError

if TYPE_CHECKING:
    from torchperf_ci.places.place import PlaceAccess, RecordPlace

REMOTE_PLACES = {"s3://": "s3://BUCKET[/PREFIX]", "branch:": "branch:NAME[@REMOTE]"}
"""How the name of a place other than a directory begins, and how it is written."""
REMOTE_FORMS = ", ".join(REMOTE_PLACES.values())
"""All of them, for help and messages."""

_API = ("https://", "http://")
_STORE = ("chdb://", "clickhouse://")


def is_api(target: str) -> bool:
    """Whether ``target`` is an upload API, which can only be written to."""
    return target.startswith(_API)


def is_store(target: str) -> bool:
    """Whether ``target`` is a store instead of a place for files."""
    return target.startswith(_STORE)


def is_remote(target: str) -> bool:
    """Whether ``target`` is written as something other than a path of this machine, if perhaps wrongly: ``s3:name``."""
    return ":" in target.partition("/")[0]


def open_place(target: str, access: PlaceAccess | None = None) -> RecordPlace:
    """Return the place at one of :data:`REMOTE_PLACES` or a directory's path, without connecting to anything.

    Raises :class:`UsageError` if ``target`` is none of these.
    """
    from torchperf_ci.places.place import DirectoryPlace, PlaceAccess  # the command line needs only the names

    access = access or PlaceAccess()
    if target.startswith("s3://"):
        from torchperf_ci.places.s3 import S3Place

        return S3Place.at(target, access)
    if target.startswith("branch:"):
        from torchperf_ci.places.branch import BranchPlace

        return BranchPlace.at(target, access)
    if not target or is_remote(target):
        scheme, colon, rest = target.partition(":")  # the rest may contain a password
        start = scheme + colon + ("//" if rest.startswith("//") else "")
        msg = f"{start!r} begins no place for records: give {REMOTE_FORMS} or a directory, as ./NAME if it has a colon"
        raise UsageError(msg)
    return DirectoryPlace(target)
