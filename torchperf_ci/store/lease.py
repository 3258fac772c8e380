"""An embedded database is one process's at a time; this one keeps it until another waits for it.

Who wants it takes the turn first, a lock on a file beside the database, and waits with it until the engine's own lock
is free. So whoever has the database sees that somebody waits, and of many who wait each gets there.
"""

from __future__ import annotations

import fcntl
import threading
import time
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING

from torchperf_ci.errors import StoreUnreachableError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from clickhouse_connect.driver.client import Client


TENURE = 1.0
"""Seconds after which a user lets go if somebody waits, a busy one after its statement. To open it again takes a tenth
of that, and leaves some files of the engine's open for good: so nobody lets go for nothing."""
BUSY_TIMEOUT = 60.0
"""Most seconds to wait for one and the same process to let go."""
_POLL = 0.02
_LOOK = 0.2
"""Seconds after which an idle user looks again whether somebody waits."""
_TURN, _HELD = "torchperf.turn", "torchperf.held"
"""Files to lock: by whoever waits, and by whoever has the database. The engine's own lock on its file `status` is not
enough: when it ends it unlocks that file first and removes it then, be it by now the file of the next one."""
_OPENING = threading.Lock()
_ASKING = threading.Lock()
"""Who looks whether somebody waits has the turn himself meanwhile, and would look like one who waits."""
_OPEN: dict[Path, int] = {}
"""How many handles this process has of each database; with one, it gets more without waiting."""
_HOLDING: dict[Path, IO[bytes]] = {}


class Lease:
    """A handle of the database at ``path``, which is open only now and then. Threads may share it."""

    def __init__(self, path: Path, name: str) -> None:
        self._path = path
        self._name = name
        self._client: Client | None = None
        self._database: str | None = None
        self._users = 0
        self._mine = threading.local()
        self._changed = threading.Condition()
        self._opened_at = self._used_at = 0.0

    def use(self, database: str) -> None:
        """Unqualified names mean those of ``database`` from now on, whenever it is opened."""
        with self._changed:
            self._database = database
            if self._client:
                self._client.database = database

    @contextmanager
    def held(self) -> Iterator[Client]:
        """The handle, which stays the same one for as long as this lasts. It may be asked for again inside."""
        depth = getattr(self._mine, "depth", 0)
        client = self._take(is_inner=depth > 0)
        self._mine.depth = depth + 1
        try:
            yield client
        finally:
            self._mine.depth = depth
            self._leave()

    def close(self) -> None:
        """Let go of it now."""
        with self._changed:
            self._let_go()
            self._changed.notify_all()

    def _take(self, *, is_inner: bool) -> Client:
        with self._changed:
            if not is_inner:
                # Else the threads of a busy server would hand it on to each other for ever.
                while self._users and self._is_due():
                    self._changed.wait(_POLL)
                if not self._users and self._is_due():
                    self._let_go()
            if self._client is None:
                self._client = self._open()
                self._opened_at = self._used_at = time.monotonic()
                threading.Thread(target=self._watch, args=[self._client], daemon=True).start()
            self._users += 1
            return self._client

    def _leave(self) -> None:
        with self._changed:
            self._users -= 1
            self._used_at = time.monotonic()
            if not self._users and self._is_due():
                self._let_go()
            self._changed.notify_all()

    def _watch(self, client: Client) -> None:
        """Let go while nobody uses it, once somebody waits; ends with the handle."""
        with self._changed:
            while self._client is client:
                if not self._users and self._is_due():
                    self._let_go()
                else:
                    self._changed.wait(_LOOK)

    def _is_due(self) -> bool:
        """Whether another process waits, and this one has had its time."""
        return time.monotonic() - self._opened_at >= TENURE and self._is_awaited()

    def _is_awaited(self) -> bool:
        try:
            with _ASKING, (self._path / _TURN).open("ab") as turn:
                return not _try_lock(turn)
        except OSError:  # the directory is gone, and nobody can wait there
            return False

    def _let_go(self) -> None:
        if self._client is not None:
            with _OPENING:
                self._client.close()
                _OPEN[self._path] -= 1
                if not _OPEN[self._path]:
                    _HOLDING.pop(self._path).close()
            self._client = None

    def _open(self) -> Client:
        with _OPENING:
            client = self._connect() if _OPEN.get(self._path) else self._open_first()
            _OPEN[self._path] = _OPEN.get(self._path, 0) + 1
        if self._database:
            client.database = self._database
        return client

    def _open_first(self) -> Client:
        """The first handle of this process, with our own lock, which is kept until the engine has quite gone."""
        try:
            holding = (self._path / _HELD).open("ab")
        except OSError as error:
            msg = f"{self._name}: the directory cannot be written: {error.strerror}; see that it is there"
            raise StoreUnreachableError(msg) from error
        try:
            with (self._path / _TURN).open("ab") as turn:
                self._wait(turn, holding)
                client = self._connect()
        except BaseException:
            holding.close()
            raise
        _HOLDING[self._path] = holding
        return client

    def _connect(self) -> Client:
        import clickhouse_connect

        return clickhouse_connect.get_client(
            interface="chdb", path=str(self._path), show_clickhouse_errors="scrub"
        )

    def _wait(self, turn: IO[bytes], holding: IO[bytes]) -> None:
        """Wait for the turn, and with it for the database. Raises where one process keeps it for too long."""
        holder, deadline = "", time.monotonic() + BUSY_TIMEOUT
        while not (_try_lock(turn) and _try_lock(holding) and not self._is_held()):
            current = self._holder()
            if current != holder:
                holder, deadline = current, time.monotonic() + BUSY_TIMEOUT
            if time.monotonic() > deadline:
                msg = (
                    f"{self._name} is in use by another process, and was for {BUSY_TIMEOUT:.0f} s; an embedded store "
                    "has one user at a time: wait for it to end, or keep results on a ClickHouse server"
                )
                raise StoreUnreachableError(msg)
            time.sleep(_POLL)

    def _is_held(self) -> bool:
        """Whether a process has the engine's own lock. It is asked silently here: the engine complains on stderr."""
        try:
            with (self._path / "status").open("rb") as file:
                return not _try_lock(file)
        except FileNotFoundError:
            return False

    def _holder(self) -> str:
        """What the engine notes of the process that has it: its number, and since when."""
        try:
            return (self._path / "status").read_text(encoding="utf-8", errors="replace")
        except OSError:
            return ""


def _try_lock(file: IO[bytes]) -> bool:
    """Lock a file until it is closed, unless another has it."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
