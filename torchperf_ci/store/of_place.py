"""A store of what a place has: a bucket or a data branch, where uploads keep records."""

from __future__ import annotations

import os
from contextlib import contextmanager
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from torchperf_ci import actions
from torchperf_ci.places import open_place
from torchperf_ci.places.access import Access
from torchperf_ci.store.ingest import ingest_place
from torchperf_ci.store.migrating import open_store

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_ci.store.outcome import Outcome


def is_remote(source: str) -> bool:
    """Whether ``source`` names a place that is no directory."""
    return "://" in source or source.startswith("branch:")


def access(role: str | None) -> Access:
    """As an upload has it: who may write may read. Nowhere but in a job is there a token to assume a role with."""
    role = role if actions.in_actions() else None
    return Access(role=role, git_token=os.environ.get("GITHUB_TOKEN", ""), mask=actions.mask)


@contextmanager
def store_of(place: str, role: str | None) -> Iterator[tuple[str, Outcome]]:
    """The DSN of an embedded store with all records of ``place``, which is gone afterwards, and what was taken in."""
    with TemporaryDirectory(prefix="torchperf-past-") as folder:
        dsn = f"chdb://{folder}/store"
        with open_store(dsn) as store:
            outcome = ingest_place(store, open_place(place, access(role)))
        yield dsn, outcome
