"""Share an embedded database, which only one process at a time can open: each keeps it until another one waits.

A process that wants the database first acquires the turn, a lock on a file beside the database, and holds it while it
waits for the engine's own lock. So the current holder sees that somebody waits, and every waiting process gets its
turn.
"""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING

from torchperf_ci.deadline import Deadline
from torchperf_ci.errors import StoreError, StoreUnreachableError, failing_as
from torchperf_ci.records.files import try_lock

if TYPE_CHECKING:
    from collections.abc import Iterator

    from clickhouse_connect.driver.client import Client


MIN_HOLD_SECONDS = 1.0
"""Seconds after which the holder releases the database if another process waits; a busy one after its statement.
Reopening takes a tenth of that, so it is not released needlessly."""
BUSY_TIMEOUT = 60.0
"""Longest wait, in seconds, for the same process to release the database."""
_POLL = 0.02
_LOOK = 0.2
"""Seconds between an idle holder's checks for waiting processes."""
_TURN, _HELD = "torchperf.turn", "torchperf.held"
"""Lock files of the process that waits, and of the one that has the database. The engine's own lock on its file
`status` is not enough: on exit the engine unlocks that file before it removes it, and may so remove the next
process's file."""
_OPTIONS = {"config-file": str(Path(__file__).with_name("engine.xml"))}
_WITHOUT_MERGING = _OPTIONS | {
    f"background_{pool}pool_size": "0" for pool in ("", "common_", "fetches_", "move_")
}
"""Options of an engine without the threads that merge parts and delete rows, which closing the engine does not end."""
_OPENING = threading.Lock()
_ASKING = threading.Lock()
"""Held during the check for waiting processes, because that check briefly takes the turn, which to another thread's
check would look like a waiting process."""
_OPEN: dict[Path, int] = {}
"""Number of this process's handles of each database; if it has one, further ones do not wait."""
_HOLDING: dict[Path, IO[bytes]] = {}


def refuse_other_folder(path: Path, name: str) -> None:
    """Raise :class:`StoreError` if the folder has something, and is no store: the engine would write among it."""
    is_store = any((path / mark).exists() for mark in (_TURN, "status", "metadata"))
    if path.is_dir() and not is_store and any(not inside.name.startswith(".") for inside in path.iterdir()):
        msg = f"{name}: the directory holds other files than those of a store; name one of its own for the store"
        raise StoreError(msg)


class Lease:
    """A handle of the database at ``path``, opened on demand. Threads may share it.

    With a ``deadline``, it waits no longer for other processes.
    """

    may_set = True

    def __init__(self, path: Path, name: str, deadline: Deadline | None = None) -> None:
        self._path = path
        self._name = name
        self._deadline = deadline
        self._client: Client | None = None
        self._database: str | None = None
        self._options: dict[str, str] = _OPTIONS
        self._users = 0
        self._mine = threading.local()
        self._changed = threading.Condition()
        self._opened_at = 0.0

    def use(self, database: str) -> None:
        """Resolve unqualified names in ``database`` from now on, also after reopening."""
        with self._changed:
            self._database = database
            if self._client:
                self._client.database = database

    def leave_merging(self) -> None:
        """Leave merging to other processes from the next reopening on; a statement that deletes rows would hang."""
        self._options = _WITHOUT_MERGING

    @contextmanager
    def acquired(self) -> Iterator[Client]:
        """Yield the handle, which stays the same for the duration of the context. Contexts may be nested."""
        depth = getattr(self._mine, "depth", 0)
        client = self._acquire(is_inner=depth > 0)
        self._mine.depth = depth + 1
        try:
            yield client
        finally:
            self._mine.depth = depth
            self._release()

    def close(self) -> None:
        """Release the database now."""
        with self._changed:
            self._close_client()
            self._changed.notify_all()

    def _acquire(self, *, is_inner: bool) -> Client:
        with self._changed:
            if not is_inner:
                # Otherwise the threads of a busy server would pass it on to each other forever.
                while self._users and self._must_yield():
                    self._changed.wait(_POLL)
                if not self._users and self._must_yield():
                    self._close_client()
            if self._client is None:
                self._client = self._open()
                self._opened_at = time.monotonic()
                threading.Thread(target=self._watch, args=[self._client], daemon=True).start()
            self._users += 1
            return self._client

    def _release(self) -> None:
        with self._changed:
            self._users -= 1
            if not self._users and self._must_yield():
                self._close_client()
            self._changed.notify_all()

    def _watch(self, client: Client) -> None:
        """Release the idle handle once another process waits; return when the handle is gone."""
        with self._changed:
            while self._client is client:
                if not self._users and self._must_yield():
                    self._close_client()
                else:
                    self._changed.wait(_LOOK)

    def _must_yield(self) -> bool:
        """Whether another process waits, and this one has had the database long enough."""
        return time.monotonic() - self._opened_at >= MIN_HOLD_SECONDS and self._others_wait()

    def _others_wait(self) -> bool:
        try:
            with _ASKING, (self._path / _TURN).open("ab") as turn:
                return not try_lock(turn)
        except OSError:  # the directory is gone, so that no process can wait there
            return False

    def _close_client(self) -> None:
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
        """Open the first handle of this process, with our own lock, which is kept until the engine is closed."""
        refused = f"{self._name}: the directory cannot be written: "
        with failing_as(StoreUnreachableError, refused, "; see that it is there"):
            holding = (self._path / _HELD).open("ab")
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
            interface="chdb",
            path=str(self._path),
            chdb_options=self._options,
            show_clickhouse_errors="scrub",
        )

    def _wait(self, turn: IO[bytes], holding: IO[bytes]) -> None:
        """Wait for the turn, then for the database.

        Raises :class:`StoreUnreachableError` if one process keeps it for longer than :data:`BUSY_TIMEOUT`, or at the
        deadline.
        """
        holder, patience = "", self._patience()
        while not (try_lock(turn) and try_lock(holding) and not self._is_held()):
            current = self._holder()
            if current != holder:
                holder, patience = current, self._patience()
            if not patience.left:
                msg = (
                    f"{self._name} is in use by another process, which does not let go; an embedded store has one "
                    "user at a time: wait for it to end, or keep results on a ClickHouse server"
                )
                raise StoreUnreachableError(msg)
            time.sleep(_POLL)

    def _patience(self) -> Deadline:
        return Deadline.after(min(BUSY_TIMEOUT, self._deadline.left) if self._deadline else BUSY_TIMEOUT)

    def _is_held(self) -> bool:
        """Whether a process has the engine's own lock. Checked here, because the engine would complain on stderr."""
        try:
            with (self._path / "status").open("rb+") as file:  # writable, since NFS locks no other file
                return not try_lock(file)
        except FileNotFoundError:
            return False

    def _holder(self) -> str:
        """Return the engine's note about the process that has the database: its process ID and start time."""
        try:
            return (self._path / "status").read_text(encoding="utf-8", errors="replace")
        except OSError:
            return ""
