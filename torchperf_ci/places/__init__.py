"""Where record files are kept: a directory, an S3 bucket, a data branch. Upload writes there, ingest reads there."""

from __future__ import annotations

from torchperf_ci.errors import UsageError
from torchperf_ci.places.place import PlaceAccess, RecordPlace

_API = ("https://", "http://")
_STORE = ("chdb://", "clickhouse://")


def is_api(target: str) -> bool:
    """Whether ``target`` is an upload API, which can only be written to."""
    return target.startswith(_API)


def is_store(target: str) -> bool:
    """Whether ``target`` is a store instead of a place for files."""
    return target.startswith(_STORE)


def open_place(target: str, access: PlaceAccess | None = None) -> RecordPlace:
    """Return the place at ``s3://BUCKET[/PREFIX]``, ``branch:NAME[@REMOTE]`` or a directory's path.

    This does not connect to anything. Raises :class:`UsageError` if ``target`` is none of these.
    """
    access = access or PlaceAccess()
    if target.startswith("s3://"):
        from torchperf_ci.places.s3 import S3Place

        return S3Place.at(target, access)
    if target.startswith("branch:"):
        from torchperf_ci.places.branch import BranchPlace

        return BranchPlace.at(target, access)
    if not target or "://" in target:
        msg = f"{target!r} is no place: give s3://BUCKET[/PREFIX], branch:NAME[@REMOTE] or a directory"
        raise UsageError(msg)
    from torchperf_ci.places.place import DirectoryPlace

    return DirectoryPlace(target)
