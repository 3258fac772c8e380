"""The complete contents of a place."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torchperf_ci.places.place import RecordPlace


def contents(place: RecordPlace) -> dict[str, bytes]:
    """Every object by its key."""
    return {key: place.get(key) for key in place.keys()}  # noqa: SIM118  # a place is no dict
