"""``--to``: everything that records can be sent to, behind one small interface."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from torchperf_ci.errors import UsageError
from torchperf_ci.places import open_place
from torchperf_ci.places.access import UploaderCredentials
from torchperf_ci.store.dsn import Embedded, parse_dsn
from torchperf_ci.upload.lambda_api import LambdaApi
from torchperf_ci.upload.tried import Tried

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torchperf_ci.places.access import Access
    from torchperf_ci.places.base import Outcome

_API = ("https://", "http://")
_STORE = ("chdb://", "clickhouse://")
_PLACE = ("s3://", "branch:")
_FORMS = (
    "an upload API (https://…), s3://BUCKET[/PREFIX], branch:NAME[@REMOTE], chdb://PATH, "
    "clickhouse://USER@HOST/DATABASE or a directory"
)
_PASSWORD = re.compile(r"(?<=://)([^/?#:@]*):(?!\d*(?:[/?#]|$)).*@", re.DOTALL)
"""From the colon that is none of a port to the last @: what has to be encoded in it is not always encoded."""
_QUERY = re.compile(r"([?#&])(?!secure=(?:true|false)(?:&|$))([^=&]*=)?[^&]*")
_TRIED = "requests.jsonl"


class Target(Protocol):
    """Somewhere to send objects to."""

    def put_all(self, bodies: Mapping[str, bytes]) -> dict[str, Outcome]:
        """Send each body under its key, under one deadline; one that fails does not stop the others."""


def is_api(to: str) -> bool:
    """Whether ``to`` is an upload API, which takes other keys, and content that is not compressed."""
    return to.startswith(_API)


def address(to: str) -> str:
    """``to`` for the spool and for people: without a password, and a path independent of where one stands."""
    if to.startswith(_STORE) and isinstance(location := parse_dsn(to), Embedded):
        return str(location)
    if "://" in to or to.startswith("branch:"):
        return _QUERY.sub(r"\1\2***", _PASSWORD.sub(r"\1@", to))
    return str(Path(to).absolute())


def open_target(to: str, access: Access, spool: Path) -> Target:
    """The target called ``to``; nothing is reached yet. Raises :class:`UsageError` where there is no such kind."""
    if is_api(to):
        return LambdaApi(
            to,
            lambda: UploaderCredentials.of(os.environ, access.mask),
            lambda url: Tried(spool / _TRIED, url),
            access.deadline,
        )
    if to.startswith(_STORE):
        from torchperf_ci.upload.into_store import StoreTarget

        return StoreTarget(to, access.mask)
    if "://" in to and not to.startswith(_PLACE):
        msg = f"{address(to)!r} is nothing that records can be sent to: give {_FORMS}"
        raise UsageError(msg)
    return open_place(to, access)
