"""A store as a target: what is uploaded is ingested at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchperf_ci.errors import ConflictError, NotDeliveredError, StoreError
from torchperf_ci.store.client import connect
from torchperf_ci.store.dsn import Server, parse_dsn
from torchperf_ci.store.ingest import ingest_objects
from torchperf_ci.store.migrating import migrate

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from torchperf_ci.places.base import Outcome
    from torchperf_ci.store.outcome import Outcome as Ingested

BUCKET = "torchperf-upload"
"""``_meta.bucket`` of rows that came straight from an uploader; ``_meta.key`` is as in any other place."""


class StoreTarget:
    """``chdb://…`` or ``clickhouse://…``; ``mask`` is told the password. Raises :class:`UsageError` for neither."""

    def __init__(self, dsn: str, mask: Callable[[str], None]) -> None:
        location = parse_dsn(dsn)
        if isinstance(location, Server):
            mask(location.password)
        self._dsn = dsn
        self._name = str(location)

    def put_all(self, bodies: Mapping[str, bytes]) -> dict[str, Outcome]:
        """Ingest all bodies under their keys; an object is kept whole or not at all."""
        try:
            with connect(self._dsn) as store:
                migrate(store)
                ingested = ingest_objects(store, BUCKET, bodies.items())
        except NotDeliveredError as error:
            return dict.fromkeys(bodies, error)
        except StoreError as error:
            return dict.fromkeys(bodies, NotDeliveredError(str(error)))
        return self._outcomes(bodies, ingested)

    def _outcomes(self, bodies: Mapping[str, bytes], ingested: Ingested) -> dict[str, Outcome]:
        outcomes: dict[str, Outcome] = dict.fromkeys(
            bodies, "written" if ingested.objects else "already there"
        )
        for key in (conflict.removeprefix(f"{BUCKET}/") for conflict in ingested.conflicts):
            msg = f"{key}: {self._name} keeps something else under this key, which was not overwritten"
            outcomes[key] = ConflictError(msg)
        for refused in ingested.refused:
            key = refused.file.removeprefix(f"{BUCKET}/")
            outcomes[key] = NotDeliveredError(f"{key}: {self._name} refuses a record: {refused.reasons[0]}")
        return outcomes
