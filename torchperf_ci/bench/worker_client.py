"""The parent's end of a worker process: what is random about its start, and how it is asked and ended."""

from __future__ import annotations

import contextlib
import json
import os
import random
import select
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from torchperf_ci.actions import without_rights
from torchperf_ci.machine.devices import host_memory
from torchperf_ci.machine.host import oom_kills
from torchperf_ci.processes import ProcessGroup

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from types import TracebackType


_T = TypeVar("_T")

PADDING = "TORCHPERF_PADDING"
"""A variable whose length moves what lies on the stack, as the length of any other variable of the caller's would."""
MOST_PADDING = 4096
"""Characters: a page."""
HASH_SEEDS = 2**32

GRAPHS = ("fxgraph", "aotautograd")
"""Folders of a compiler's cache: graphs as they were lowered, with the variants in them that timing has chosen."""
_COMPILED_FOLDERS = ("triton", "extensions")
_COMPILED = (".so", ".dylib", ".o", ".cpp", ".h", ".hpp", ".gch", ".cu", ".cubin", ".hsaco", ".ukdb")
"""What is filed under a digest of its source and of how it was compiled: whoever chooses it again finds it there."""
_CHOSEN = ".autotune.json"
"""What Triton chose, among what it compiled."""


def random_variables() -> dict[str, str]:
    """Variables of a process to come: the seed of Python's hashes, and characters that make its environment larger.

    Where these stay the same, two builds are told apart by what they happen to do to either, the surer the more pairs.
    """
    padding = "x" * random.randrange(MOST_PADDING)
    return {"PYTHONHASHSEED": str(random.randrange(HASH_SEEDS)), PADDING: padding}


def forget_choices(cache: Path, *, keep_graphs: bool = False) -> bool:
    """Take out of a compiler's cache what was chosen by timing, and keep what was compiled; whether there was any.

    Inductor times variants of a kernel (two in its default mode on CUDA, five on ROCm), of products, of paddings. It
    keeps the winners: of kernels in files beside them (``*.best_config``), of the rest in tables, in its graphs, and in
    whatever it comes to next; so it is said what stays. The next process lowers its graphs again, times the variants
    again, and has none to compile: that takes 2 of a pair's 12 s on a CPU, where one without a cache takes 30 to 40.

    ``keep_graphs`` leaves the graphs, which load in a moment, and with them the choices of products and paddings.
    """
    forgotten = False
    for path in [*_files(cache)]:
        if not _stays(path.relative_to(cache), keep_graphs=keep_graphs):
            path.unlink(missing_ok=True)
            forgotten = True
    return forgotten


def _files(cache: Path) -> Iterator[Path]:
    return (path for path in cache.rglob("*") if not path.is_dir())


def _stays(path: Path, *, keep_graphs: bool) -> bool:
    if path.name.endswith(_CHOSEN):
        return False
    folders = (*_COMPILED_FOLDERS, *(GRAPHS if keep_graphs else ()))
    return path.parts[0] in folders or path.name.endswith(_COMPILED)


BOOTSTRAP = Path(__file__).parent / "worker" / "bootstrap.py"
LOOK_SECONDS = 0.25
"""Between two looks at a working worker's memory."""
GRACE_SECONDS = 3.0
LONGEST_LINE = 16 * 2**20
"""Bytes; the longest honest answer, all samples of a process, is a hundredth of it."""
LOG_TAIL_LINES = 20


class WorkerFailure(Exception):  # noqa: N818  # an outcome that becomes a record, not an error that a user meets
    """How a worker ended or what it could not do: a status word, a reason and the tail of its log."""

    def __init__(self, status: str, reason: str, log: str = "") -> None:
        super().__init__(f"{status}: {reason}")
        self.status = status
        self.reason = reason
        self.log = log


class Worker:
    """One worker process in the environment under test, in a process group of its own.

    ``memory_limit`` is in bytes of the worker's own resident memory; a worker above it is ended as ``oom`` before the
    kernel picks a victim by itself.
    """

    def __init__(
        self,
        python: str,
        log: Path,
        environment: Mapping[str, str],
        cpus: tuple[int, ...] = (),
        memory_limit: int | None = None,
    ) -> None:
        self._log = log
        self._memory_limit = memory_limit
        self._buffer = bytearray()
        self._oom_kills = oom_kills()
        self._socket, theirs = socket.socketpair()
        with theirs, log.open("wb") as output:
            self._group = ProcessGroup(
                [python, str(BOOTSTRAP), str(theirs.fileno())],
                {**without_rights(os.environ), **environment},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                pass_fds=[theirs.fileno()],
            )
        self._process = self._group.process
        self.pin(cpus)
        _offer_to_oom_killer(self._process.pid)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def __enter__(self) -> Worker:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def pin(self, cpus: tuple[int, ...]) -> None:
        """Keep all threads that there are, and those that they will start, on these CPUs; on any, if there are none."""
        if not cpus or sys.platform != "linux":
            return
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            for thread in Path(f"/proc/{self.pid}/task").iterdir():
                os.sched_setaffinity(int(thread.name), cpus)

    def ask(self, verb: str, timeout: float, kind: type[_T], **arguments: object) -> _T:
        """Send one request and wait for its answer, a ``kind`` of :mod:`torchperf_ci.bench.worker.protocol`.

        Raises :class:`WorkerFailure`.
        """
        import msgspec

        try:
            self._socket.sendall(json.dumps({"verb": verb, **arguments}).encode() + b"\n")
        except OSError:
            raise self._ended(verb) from None
        line = self._receive(verb, time.monotonic() + timeout, timeout)
        try:
            answer = json.loads(line)
            if "error" in answer:
                error = answer["error"]
                raise WorkerFailure(error["status"], error["reason"], error["traceback"])
            return msgspec.convert(answer["ok"], kind)
        except (ValueError, KeyError, TypeError):
            msg = "crashed"
            raise self._failure(msg, f"the worker answered out of protocol: {line[:80]!r}") from None

    def close(self) -> None:
        """Let an idle worker go; end all that it has started, so that nothing stays behind."""
        self._socket.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(GRACE_SECONDS)
        self._kill()

    def _receive(self, verb: str, deadline: float, timeout: float) -> bytes:
        """One line. Nothing is in the buffer beforehand: a worker speaks only when it is asked."""
        poller = select.poll()  # unlike select(), whatever the number of the file is
        poller.register(self._socket, select.POLLIN)
        while not self._buffer.endswith(b"\n"):
            left = deadline - time.monotonic()
            if left <= 0:
                self._kill()
                msg = "timeout"
                raise self._failure(msg, f"{verb} took longer than {timeout:.0f} s")
            if poller.poll(1000 * min(left, LOOK_SECONDS)):
                self._read(verb)
            elif self._process.poll() is not None:
                raise self._ended(verb)
            else:
                self._enforce_memory_limit(verb)
        line = bytes(self._buffer)
        self._buffer.clear()
        return line

    def _read(self, verb: str) -> None:
        try:
            received = self._socket.recv(2**20)
        except ConnectionError:
            received = b""
        if not received:
            raise self._ended(verb)
        self._buffer += received
        if len(self._buffer) > LONGEST_LINE:
            self._kill()
            msg = "crashed"
            raise self._failure(msg, f"the worker's answer to {verb} does not end")

    def _enforce_memory_limit(self, verb: str) -> None:
        if self._memory_limit is None:
            return
        used = host_memory.resident(self._process.pid)
        if used > self._memory_limit:
            self._kill()
            mib, limit = used >> 20, self._memory_limit >> 20
            msg = "oom"
            raise self._failure(msg, f"{verb} used {mib} MiB of host memory; the limit is {limit} MiB")

    def _ended(self, verb: str) -> WorkerFailure:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(GRACE_SECONDS)
        code = self._process.poll()
        self._kill()
        if code is None:
            return self._failure("crashed", f"the worker closed its channel during {verb}")
        if code >= 0:
            return self._failure("crashed", f"the worker exited with code {code} during {verb}")
        if -code == signal.SIGKILL and oom_kills() != self._oom_kills:
            return self._failure("oom", f"the kernel killed the worker during {verb}: out of memory")
        return self._failure(
            "crashed", f"the worker was killed by {signal.Signals(-code).name} during {verb}"
        )

    def _failure(self, status: str, reason: str) -> WorkerFailure:
        return WorkerFailure(status, reason, self.log_tail())

    def log_tail(self) -> str:
        """The last lines of what the worker and its workload printed."""
        with self._log.open("rb") as log:
            log.seek(max(0, self._log.stat().st_size - 2**14))
            lines = log.read().decode(errors="replace").splitlines()
        return "\n".join(lines[-LOG_TAIL_LINES:])

    def _kill(self) -> None:
        self._group.end()


def _offer_to_oom_killer(pid: int) -> None:
    """If memory runs out all the same, the kernel shall take the worker and not the parent with its results."""
    with contextlib.suppress(OSError):
        Path(f"/proc/{pid}/oom_score_adj").write_text("1000")
