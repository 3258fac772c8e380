"""The client of the store: runs the same SQL on an embedded engine and on a server, with errors that say what to do."""

from __future__ import annotations

import errno
import logging
import re
import threading
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import cache
from math import ceil, inf
from pathlib import Path
from tempfile import SpooledTemporaryFile
from typing import TYPE_CHECKING, Any, cast

from torchperf_ci.errors import StoreError, StoreUnreachableError, UsageError, failing_as
from torchperf_ci.records.files import make_own_folder
from torchperf_ci.store.dsn import DATABASE, PASSWORD, EmbeddedStore, StoreServer, parse_dsn
from torchperf_ci.store.lease import Lease, refuse_other_folder

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from clickhouse_connect.driver.client import Client
    from clickhouse_connect.driver.httpclient import HttpClient

    from torchperf_ci.deadline import Deadline


CHANGING = threading.Lock()
"""Held by the thread that adds results, or that rebuilds what is derived from them, so that neither sees half of the
other's work. Acquired within :meth:`Store.keep_open`. Only for threads of this process: no other process uses an
embedded store meanwhile, and a server coordinates its clients itself."""

CONNECT_TIMEOUT = 10
STATEMENT_TIMEOUT = 600
"""Longest duration of one statement, in seconds."""

_QUERIES = Path(__file__).with_name("queries")
_INCLUDED = re.compile(
    r"/\* (group_states|point_filter|series_filter|point_columns|points|record_columns|values|series_id) \*/"
)
_CHUNK_SIZE = 1 << 20
_SPOOLED = 16 << 20
"""Bytes of an answer that are kept in memory; larger ones go to a temporary file."""
_ERROR_TEXT = re.compile(r"(?:.*?DB::Exception: )?(.*?)(?:: (?:In scope|[Ww]hile executing) .*)?$")
_TOO_SLOW, _TOO_LARGE = 159, 396  # TIMEOUT_EXCEEDED, TOO_MANY_ROWS_OR_BYTES
_EXCEEDED = {_TOO_SLOW: "takes more than {.seconds} s", _TOO_LARGE: "has more than {.size} bytes"}
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_MAKE_ROOM = "; free some of it and run this again: only whole objects were stored"
_LOG_IN = f"; give the user in the store's address, and the password in {PASSWORD}"
_ALLOW = "; ask the server's administrator for this permission"
_ADVICE = {
    **dict.fromkeys((192, 193, 194, 516), _LOG_IN),
    **dict.fromkeys((164, 497), _ALLOW),  # READONLY and ACCESS_DENIED
    **dict.fromkeys((75, 243), _MAKE_ROOM),  # CANNOT_WRITE_TO_FILE_DESCRIPTOR and NOT_ENOUGH_SPACE
}


@cache
def statement(name: str) -> str:
    """Return the text of ``queries/NAME.sql``, with its includes."""
    return included((_QUERIES / f"{name}.sql").read_text(encoding="utf-8"))


def included(text: str) -> str:
    """Return ``text`` with other queries inserted where a comment names them: ``/* points */``."""
    return _INCLUDED.sub(lambda match: statement(match[1]).rstrip(), text)


_FIELD = 32_000
"""Most characters of a list in one parameter: of four bytes each, they fit into the 128 KiB that a server accepts."""


def _in_short_fields(sql: str, parameters: Mapping[str, object]) -> tuple[str, dict[str, object]]:
    """Return a query and its parameters, with long lists of texts split into several."""
    bound: dict[str, object] = {}
    for name, value in parameters.items():
        parts = _parts(value) if isinstance(value, list) else [value]
        names = [name, *(f"{name}_{number}" for number in range(1, len(parts)))]
        bound |= zip(names, parts, strict=True)
        if len(parts) > 1:
            joined = ", ".join(f"{{{part}:Array(String)}}" for part in names)
            sql = sql.replace(f"{{{name}:Array(String)}}", f"arrayConcat({joined})")
    return sql, bound


def _parts(texts: list[str]) -> list[list[str]]:
    longest = max((len(text) + len("'',") for text in texts), default=1)
    count = max(_FIELD // longest, 1)
    return [texts[at : at + count] for at in range(0, len(texts), count)] or [[]]


_RESULTS = f"({statement('values')})"


@dataclass(frozen=True)
class AnswerLimits:
    """The most bytes of an answer, as the engine has it and as it is sent, and the most seconds that it may take."""

    size: int
    seconds: int

    @property
    def settings(self) -> dict[str, Any]:
        """The engine's settings, which give up before all of an answer is there."""
        return {
            "max_execution_time": self.seconds,
            "max_result_bytes": self.size,
            "result_overflow_mode": "throw",
        }

    def exceeded(self, code: int) -> UsageError:
        """Return the error for an answer beyond the limit of ClickHouse's error ``code``."""
        why = _EXCEEDED[code].format(self)
        return UsageError(f"the answer {why}; query a shorter period, or fewer models")


class RefusedStatementError(StoreError):
    """The engine refused a statement; ``code`` is ClickHouse's error code, 0 if it gave none."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


class ServerClient:
    """A connection to a server. Has the interface of a :class:`Lease`, but never waits, since servers are shared.

    With a ``deadline``, statements that are late raise :class:`StoreUnreachableError`.
    """

    def __init__(self, client: HttpClient, name: str, deadline: Deadline | None) -> None:
        self._client = client
        self._name = name
        self._deadline = deadline
        self.may_set = client.server_settings["readonly"].value != "1"
        self._longest = float(client.server_settings["max_execution_time"].value) or inf

    @contextmanager
    def acquired(self) -> Iterator[Client]:
        """Yield the connection."""
        if self._deadline:
            from urllib3 import Timeout

            left = self._deadline.left
            if not left:
                msg = f"{self._name} did not finish in time; try again later, or allow more time"
                raise StoreUnreachableError(msg)
            self._client.timeout = Timeout(connect=min(CONNECT_TIMEOUT, left), read=left)
            # While a server reports its progress, no read times out.
            self._client.set_client_setting("max_execution_time", ceil(min(left, self._longest)))
        yield self._client

    def use(self, database: str) -> None:
        """Resolve unqualified names in ``database`` from now on."""
        self._client.database = database

    def close(self) -> None:
        """End the connection."""
        self._client.close()


class Store(AbstractContextManager["Store"]):
    """A store; ``name`` is its address without a password. An embedded one is open only while it is used."""

    def __init__(self, client: Lease | ServerClient, location: EmbeddedStore | StoreServer) -> None:
        self._client = client
        self._location = location
        self._may_set = client.may_set
        self.name = str(location)
        self.embedded = isinstance(location, EmbeddedStore)
        self._source = "torchperf_values"
        self.has_values = True

    def __exit__(self, *_exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Release the database."""
        self._client.close()

    @contextmanager
    def keep_open(self) -> Iterator[None]:
        """Keep an embedded database and its temporary tables open; others wait, so it should take only seconds."""
        with self._explained(), self._client.acquired():
            yield

    def use(self, database: str) -> None:
        """Resolve unqualified names in ``database`` from now on."""
        self._client.use(database)

    def leave_merging(self) -> None:
        """Let other processes merge an embedded database: each handing over would leak the threads that do."""
        if isinstance(self._client, Lease):
            self._client.leave_merging()

    @property
    def database(self) -> str:
        """The name of the database with the results, whether it exists yet or not."""
        return self._location.database if isinstance(self._location, StoreServer) else DATABASE

    def read_results_alone(self) -> None:
        """Query the results themselves from now on, because the derived tables do not exist."""
        self._source, self.has_values = _RESULTS, False

    def statement(self, name: str, *, by_time: bool = False) -> str:
        """Return the text of ``queries/NAME.sql``, with ``/* source */`` replaced by where this store has its values.

        By default that is the table ordered by series; ``by_time`` reads the results, which suits all series at once.
        """
        return statement(name).replace("/* source */", _RESULTS if by_time else self._source)

    def rows(self, sql: str, parameters: Mapping[str, object] | None = None) -> Sequence[Sequence[Any]]:
        """Return the rows of a query. Parameters are bound by the engine: ``{name:Type}``."""
        with self._explained(), self._client.acquired() as client:
            return client.query(*self._prepared(sql, parameters or {})).result_rows

    def columns(self, sql: str, parameters: Mapping[str, object]) -> Sequence[Sequence[Any]]:
        """Return the result of a query column by column, which for many rows takes a fraction of the time."""
        with self._explained(), self._client.acquired() as client:
            return client.query(*self._prepared(sql, parameters)).result_columns

    def _prepared(self, sql: str, parameters: Mapping[str, object]) -> tuple[str, dict[str, object]]:
        """Return a query as it can be sent, and its parameters.

        Its settings, which only make it faster or nicer, are left out where nobody may change any.
        """
        return _in_short_fields(sql if self._may_set else sql.partition("\nSETTINGS ")[0], parameters)

    def has_table(self, name: str) -> bool:
        """Whether the store has a table. Without the right to create tables, it may have only that of the results."""
        sql = "SELECT 1 FROM system.tables WHERE database = currentDatabase() AND name = {name:String}"
        return bool(self.rows(sql, {"name": name}))

    def run(self, sql: str, parameters: Mapping[str, object] | None = None, query_id: str = "") -> None:
        """Run a statement without rows. A server refuses it while another one with the same ``query_id`` is running."""
        settings = {"query_id": query_id} if query_id else None
        with self._explained(), self._client.acquired() as client:
            client.command(sql, parameters=dict(parameters or {}), settings=settings)

    def insert(self, table: str, columns: Sequence[str], lines: bytes) -> None:
        """Insert rows given in the format JSONEachRow; they are there when this returns."""
        with self._explained(), self._client.acquired() as client:
            client.raw_insert(table, columns, lines, {"async_insert": 0}, fmt="JSONEachRow")

    def stream(
        self, sql: str, parameters: Mapping[str, object], form: str, limits: AnswerLimits | None = None
    ) -> Iterator[bytes]:
        """Yield the result of a query in one of ClickHouse's formats, piece by piece.

        An embedded store's answer is complete before the first piece, so that a slow reader does not block others.
        Raises :class:`UsageError` where it exceeds ``limits``.
        """
        pieces = self._pieces(sql, parameters, form, limits)
        if not self.embedded:
            yield from pieces
            return
        with self._explained(), SpooledTemporaryFile(_SPOOLED) as answer:
            answer.writelines(pieces)
            answer.seek(0)
            while piece := answer.read(_CHUNK_SIZE):
                yield piece

    def _pieces(
        self, sql: str, parameters: Mapping[str, object], form: str, limits: AnswerLimits | None
    ) -> Iterator[bytes]:
        # Else a server answers 200, and a statement that fails later ends its rows with a message.
        settings = {"wait_end_of_query": 1, **(limits.settings if limits else {})}
        size = 0
        try:
            with (
                self._explained(),
                self._client.acquired() as client,
                client.raw_stream(*self._prepared(sql, parameters), settings=settings, fmt=form) as stream,
            ):
                while piece := stream.read(_CHUNK_SIZE):
                    size += len(piece)
                    if limits and size > limits.size:
                        raise limits.exceeded(_TOO_LARGE)
                    yield piece
        except RefusedStatementError as error:
            if limits and error.code in _EXCEEDED:
                raise limits.exceeded(error.code) from error
            raise

    @contextmanager
    def _explained(self) -> Iterator[None]:
        from clickhouse_connect.driver.exceptions import ClickHouseError, OperationalError
        from urllib3.exceptions import HTTPError

        try:
            yield
        except (OperationalError, HTTPError) as error:
            if getattr(error, "code", None):  # a statement that failed while its rows came
                raise _refusal(self._location, error) from error
            msg = f"{self.name} does not answer ({_root_cause(error)}); see that it runs and can be reached from here"
            raise StoreUnreachableError(msg) from error
        except ClickHouseError as error:
            raise _refusal(self._location, error) from error
        except OSError as error:
            if error.errno not in _FULL:
                raise
            msg = f"{self.name}: its disk, or that of temporary files, is full: {error.strerror}{_MAKE_ROOM}"
            raise StoreError(msg) from error


def connect(dsn: str, deadline: Deadline | None = None) -> Store:
    """Open the store at ``chdb://PATH`` or ``clickhouse://USER@HOST/DATABASE`` without migrating its schema.

    A server has until ``deadline`` for all statements, and another process to release an embedded database; without
    one, each statement has as long as it may take.

    Raises :class:`UsageError` for an invalid DSN, :class:`StoreUnreachableError` if the server does not answer in time
    or another process holds the embedded database, and :class:`StoreError` for any other failure.
    """
    location = parse_dsn(dsn)
    try:
        import clickhouse_connect
    except ImportError as error:
        msg = "the store needs packages that are not installed: pip install 'torchperf-ci[store]'"
        raise UsageError(msg) from error
    # Errors are reported once, by our own exceptions.
    logging.getLogger(clickhouse_connect.__name__).addHandler(logging.NullHandler())
    # A limit that this user may not change is the server's own.
    clickhouse_connect.common.set_setting("invalid_setting_action", "drop")
    if isinstance(location, EmbeddedStore):
        return _connect_embedded(location, deadline)
    return _connect_server(location, deadline)


def _connect_embedded(location: EmbeddedStore, deadline: Deadline | None) -> Store:
    from clickhouse_connect.driver.exceptions import ClickHouseError

    with failing_as(StoreError, f"{location}: the directory cannot be made: ", "; name one that is writable"):
        refuse_other_folder(location.path, str(location))
        make_own_folder(location.path)
    lease = Lease(location.path, str(location), deadline)
    try:
        with lease.acquired():
            return Store(lease, location)
    except ImportError as error:
        msg = "the embedded store needs a package that is not installed: pip install 'torchperf-ci[store]'"
        raise UsageError(msg) from error
    except ClickHouseError as error:
        raise _refusal(location, error) from error


def _connect_server(location: StoreServer, deadline: Deadline | None) -> Store:
    import clickhouse_connect
    from clickhouse_connect.driver.exceptions import ClickHouseError, OperationalError
    from urllib3.exceptions import LocationValueError

    seconds = max(int(deadline.left), 1) if deadline else STATEMENT_TIMEOUT
    try:
        client = clickhouse_connect.get_client(
            host=location.host,
            port=location.port,
            username=location.user,
            password=location.password,
            interface="https" if location.secure else "http",
            connect_timeout=min(CONNECT_TIMEOUT, seconds),
            send_receive_timeout=seconds,
            show_clickhouse_errors="scrub",
            form_encode_query_params=True,  # many keys are too long for a URL
        )
    except LocationValueError:  # which quotes the address of the proxy, and what may be its password
        msg = f"{location} cannot be asked: the proxy in HTTP_PROXY or HTTPS_PROXY is no URL; correct it"
        raise UsageError(msg) from None
    except OperationalError as error:
        msg = f"{location} does not answer ({_root_cause(error)}); see that it runs and can be reached from here"
        raise StoreUnreachableError(msg) from error
    except ClickHouseError as error:
        raise _refusal(location, error) from error
    return Store(ServerClient(cast("HttpClient", client), str(location), deadline), location)


def _refusal(location: EmbeddedStore | StoreServer, error: Exception) -> RefusedStatementError:
    code = getattr(error, "code", None) or 0
    return RefusedStatementError(f"{location}: {_first_line(error)}{_ADVICE.get(code, '')}", code)


def _first_line(error: BaseException) -> str:
    """Return the engine's message without the statement and the stack that it adds."""
    match = _ERROR_TEXT.match(str(error).partition("\n")[0])
    return match[1][:300].rstrip(". ") if match else type(error).__name__


def _root_cause(error: BaseException) -> str:
    """Return the text of the first error in the chain that led to this one, usually the network's."""
    while cause := error.__cause__ or error.__context__:
        error = cause
    return _first_line(error)
