"""The addresses of stores: ``chdb://PATH`` for an embedded one, ``clickhouse://USER@HOST/DATABASE`` for a server."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from torchperf_ci.errors import UsageError
from torchperf_ci.records.schema import is_text

DATABASE = "benchmark"
PASSWORD = "TORCHPERF_STORE_PASSWORD"  # noqa: S105 - the variable's name
DSN_FORMS = "chdb://PATH or clickhouse://USER@HOST[:PORT]/DATABASE[?secure=true]"
_PORT, _SECURE_PORT = 8123, 8443
_ENCODED = "it has host and port in another form, or a password with a space or / to write as %20 or %2F"


@dataclass(frozen=True)
class EmbeddedStore:
    """A database in a directory of this machine."""

    path: Path

    def __str__(self) -> str:
        return f"chdb://{self.path}"


@dataclass(frozen=True)
class StoreServer:
    """A server's HTTP interface. Its string form contains no password."""

    host: str
    port: int
    user: str
    database: str
    secure: bool
    password: str = field(default="", repr=False)

    def __str__(self) -> str:
        return f"clickhouse://{self.host}:{self.port}/{self.database}"


def parse_dsn(dsn: str, environ: Mapping[str, str] = os.environ) -> EmbeddedStore | StoreServer:
    """Parse a DSN; if it contains no password, ``TORCHPERF_STORE_PASSWORD`` is used.

    A path is relative to the working directory, unless it begins with a third slash, ``chdb:///data/store``, or with
    the home directory, which no shell expands there: ``chdb://~/store``.
    Raises :class:`UsageError`, which never repeats a password.
    """
    scheme, _, rest = dsn.partition("://")
    if scheme == "chdb" and rest and "?" not in rest:
        return EmbeddedStore(_encodable(Path(os.path.expanduser(rest)).absolute()))  # noqa: PTH111 - never raises
    if scheme == "clickhouse":
        return _store_server(dsn, environ.get(PASSWORD, ""))
    if scheme == "chdb" and not rest:
        raise UsageError(f"the store's address names no directory; give {DSN_FORMS}")
    what = f"a store that begins with {scheme[:20]!r}" if rest else "a store without a kind"
    hint = "" if rest or {*dsn} & {*":@?"} else f" (did you mean chdb://{dsn}?)"
    raise UsageError(f"{what} is not known{hint}; give {DSN_FORMS}")


def _encodable(path: Path) -> Path:
    """Return the path of an embedded store, whose engine takes only UTF-8. Raises :class:`UsageError` for another."""
    if "\0" in str(path) or not is_text(str(path)):
        raise UsageError(f"{path}: a store's path has to be UTF-8 without NUL; give another directory")
    return path


def _store_server(dsn: str, password: str) -> StoreServer:
    if not is_text(dsn + password):
        raise UsageError(f"the store's address and {PASSWORD} have to be UTF-8; give {DSN_FORMS}")
    try:
        url = urlsplit(dsn)
        port = url.port
    except ValueError:  # whose text may quote a password that came apart
        raise UsageError(f"the store's address cannot be read: {_ENCODED}; give {DSN_FORMS}") from None
    secure = _is_secure(url)
    if not url.hostname:
        raise UsageError(f"the store's address names no host; give {DSN_FORMS}")
    return StoreServer(
        host=url.hostname,
        port=port or (_SECURE_PORT if secure else _PORT),
        user=unquote(url.username or "default"),
        database=unquote(url.path.strip("/")) or DATABASE,
        secure=secure,
        password=unquote(url.password or "") or password,
    )


def _is_secure(url: SplitResult) -> bool:
    """Whether to use TLS: as ``secure`` says, else if the port is a usual one for TLS. Raises :class:`UsageError`."""
    options = dict(parse_qsl(url.query, keep_blank_values=True))
    secure = options.pop("secure", "true" if url.port in {443, _SECURE_PORT} else "false")
    if options or secure not in {"true", "false"}:
        msg = (
            "the store's address cannot be read: after the question mark stands secure=true or secure=false, nothing "
            f"else; give {DSN_FORMS}"
        )
        raise UsageError(msg)
    return secure == "true"
