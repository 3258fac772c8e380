"""The complete contents of a place."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchperf_ci.places.branch import BranchPlace
from torchperf_ci.places.place import DirectoryPlace

if TYPE_CHECKING:
    from torchperf_ci.places.place import RecordPlace


def contents(place: RecordPlace) -> dict[str, bytes]:
    """Every object by its key."""
    if isinstance(place, BranchPlace):
        return {file.key: file.body for file in place.read([*place.listed()])}
    keys = place.keys() if isinstance(place, DirectoryPlace) else [item.key for item in place.listed()]
    return {key: place.get(key) for key in keys}
