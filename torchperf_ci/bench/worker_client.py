"""The parent's side of a worker process: start it with randomized variables, send requests, and end it."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import socket
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

from torchperf_ci.actions import without_rights
from torchperf_ci.machine.devices.system_files import resident_memory
from torchperf_ci.machine.host import oom_kills
from torchperf_ci.machine.tuning import pin
from torchperf_ci.masking import without_secrets
from torchperf_ci.processes import GRACE_SECONDS, ProcessGroup

_T = TypeVar("_T")

PADDING = "TORCHPERF_PADDING"
"""Environment variable whose length shifts the stack, as differences between callers' environments would."""
MAX_PADDING = 4096
"""Most characters of padding: a page of memory."""
HASH_SEEDS = 2**32

GRAPHS = ("fxgraph", "aotautograd")
"""Folders of inductor's cache with lowered graphs, which contain the kernel variants chosen by timing."""
_COMPILED = (".so", ".dylib", ".o", ".cpp", ".h", ".hpp", ".gch", ".cu", ".cubin", ".hsaco", ".ukdb")
"""Files that are stored under a digest of their source and compiler options, so they are reused if chosen again."""
_CHOSEN = ".autotune.json"
"""Suffix of the files in which Triton keeps its choices, next to its compiled kernels."""


def random_variables() -> dict[str, str]:
    """Return variables for a new process: Python's hash seed, and padding of random length.

    Both can affect two builds differently. If they were fixed, more pairs would only make such an accidental
    difference look more certain.
    """
    padding = "x" * random.randrange(MAX_PADDING)
    return {"PYTHONHASHSEED": str(random.randrange(HASH_SEEDS)), PADDING: padding}


def forget_choices(cache: Path, *, keep_graphs: bool = False) -> bool:
    """Delete from a compiler's cache the choices made by timing but keep compiled code. Return whether any existed.

    Inductor times variants of kernels (two in its default mode on CUDA, five on ROCm), matrix products and paddings.
    It stores the best kernels in files next to them (``*.best_config``) and the other choices in tables and graphs.
    Future versions may use other files, so this function lists what to keep rather than what to delete. The next
    process lowers its graphs and times the variants again but compiles nothing: that takes 2 of a pair's 12 s on a
    CPU, whereas a pair without a cache takes 30 to 40 s.

    ``keep_graphs`` keeps the graphs, which load quickly, and with them the choices of products and paddings.
    """
    forgotten = False
    kept = ("triton", "extensions", *(GRAPHS if keep_graphs else ()))
    for path in [Path(folder, name) for folder, _, names in os.walk(cache) for name in names]:
        is_code = path.relative_to(cache).parts[0] in kept or path.name.endswith(_COMPILED)
        if path.name.endswith(_CHOSEN) or not is_code:
            path.unlink(missing_ok=True)
            forgotten = True
    return forgotten


BOOTSTRAP = Path(__file__).parent / "worker" / "bootstrap.py"
LOOK_SECONDS = 0.25
"""Time between two checks of a busy worker's memory."""
MAX_LINE_LENGTH = 16 * 2**20
"""Most bytes of an answer; the longest valid one, all samples of a process, is a hundredth of it."""
MAX_LOG_BYTES = 64 * 2**20
"""A longer log is emptied, because only its last lines are read, and what each step prints would fill the disk."""
LOG_TAIL_LINES = 20
CRASH_LINES = 6
"""Lines of a crash's traceback that are kept: its heading and five calls."""


class WorkerFailure(Exception):  # noqa: N818  # an outcome that becomes a record, not an error that a user meets
    """A worker died or could not do what it was asked: a status, a reason and the last lines of its log.

    Both texts become part of records, so credentials are masked: an error of a download may quote its URL.
    """

    def __init__(self, status: str, reason: str, log: str = "") -> None:
        self.status = status
        self.reason = without_secrets(reason)
        self.log = without_secrets(log)
        super().__init__(f"{status}: {self.reason}")


class Worker(contextlib.AbstractContextManager["Worker"]):
    """One worker process in the environment under test, in its own process group.

    ``memory_limit`` is in bytes of the worker's resident memory. A worker above it is killed with status ``oom``,
    before the kernel chooses a process to kill.
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
        self._idle = False
        self._oom_kills = oom_kills()
        self._socket, theirs = socket.socketpair()
        log.write_bytes(b"")
        with theirs, log.open("ab") as output:
            try:
                self._group = ProcessGroup(
                    [python, str(BOOTSTRAP), str(theirs.fileno())],
                    {**without_rights(os.environ), **environment},
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    pass_fds=[theirs.fileno()],
                )
            except OSError:
                self._socket.close()
                raise
        self._process = self._group.process
        self.pin(cpus)
        # If memory runs out after all, the kernel shall kill the worker, and not the parent, which has the results.
        with contextlib.suppress(OSError):
            Path(f"/proc/{self.pid}/oom_score_adj").write_text("1000")

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def __exit__(self, *_: object) -> None:
        self.close()

    def pin(self, cpus: tuple[int, ...]) -> None:
        """Pin all existing threads, and so those that they start, to ``cpus``. Does nothing for an empty tuple."""
        for thread in Path(f"/proc/{self.pid}/task").glob("*") if cpus else ():
            with contextlib.suppress(ProcessLookupError):  # it has just ended
                pin(int(thread.name), cpus)

    def ask(self, verb: str, timeout: float, kind: type[_T], **arguments: object) -> _T:
        """Send one request and wait for its answer, a ``kind`` of :mod:`torchperf_ci.bench.worker.protocol`.

        Raises :class:`WorkerFailure`.
        """
        import msgspec

        self._idle = False
        try:
            self._socket.sendall(json.dumps({"verb": verb, **arguments}).encode() + b"\n")
        except OSError:
            raise self._ended(verb) from None
        line = self._receive(verb, timeout)
        self._idle = True
        try:
            answer = json.loads(line)
            if "error" in answer:
                error = answer["error"]
                raise WorkerFailure(error["status"], error["reason"], error["traceback"])
            return msgspec.convert(answer["ok"], kind)
        except (ValueError, KeyError, TypeError):
            self._group.end()  # its next answer would be that to this request
            reason = f"the worker answered out of protocol: {line[:80]!r}"
            raise self._failure(status="crashed", reason=reason) from None

    def close(self) -> None:
        """Let an idle worker exit, then kill everything that it has started.

        One that is starting or at work, as when a signal stops the run, would not notice; it is not waited for.
        """
        self._socket.close()
        if self._idle:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(GRACE_SECONDS)
        self._group.end()

    def _receive(self, verb: str, timeout: float) -> bytes:
        """Receive one line: a worker sends only answers to requests."""
        deadline = time.monotonic() + timeout
        self._socket.settimeout(LOOK_SECONDS)
        line = bytearray()
        while not line.endswith(b"\n"):
            self._shorten_log()
            if time.monotonic() >= deadline:
                self._process.send_signal(signal.SIGUSR1)  # it then writes to its log where it is, and ends
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self._process.wait(GRACE_SECONDS)
                self._group.end()
                why = (
                    f"{verb} took longer than {timeout:.0f} s" if timeout else f"no time was left for {verb}"
                )
                raise self._failure(status="timeout", reason=why)
            try:
                received = self._socket.recv(2**20)
            except TimeoutError:
                if not self.alive:
                    raise self._ended(verb) from None
                self._enforce_memory_limit(verb)
                continue
            except ConnectionError:
                received = b""
            if not received:
                raise self._ended(verb)
            line += received
            if len(line) > MAX_LINE_LENGTH:
                self._group.end()
                raise self._failure(status="crashed", reason=f"the worker's answer to {verb} does not end")
        return bytes(line)

    def _shorten_log(self) -> None:
        with contextlib.suppress(FileNotFoundError):
            if self._log.stat().st_size > MAX_LOG_BYTES:
                os.truncate(self._log, 0)

    def _enforce_memory_limit(self, verb: str) -> None:
        if self._memory_limit and (used := resident_memory(self.pid)) > self._memory_limit:
            self._group.end()
            limit = self._memory_limit >> 20
            reason = f"{verb} used {used >> 20} MiB of host memory; the limit is {limit} MiB"
            raise self._failure(status="oom", reason=reason)

    def _ended(self, verb: str) -> WorkerFailure:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(GRACE_SECONDS)
        code = self._process.poll()
        self._group.end()
        if code is None:
            return self._failure("crashed", f"the worker closed its channel during {verb}")
        if code >= 0:
            return self._failure("crashed", f"the worker exited with code {code} during {verb}")
        if -code == signal.SIGKILL and oom_kills() != self._oom_kills:
            return self._failure("oom", f"the kernel killed the worker during {verb}: out of memory")
        name = next((known.name for known in signal.Signals if known == -code), f"signal {-code}")
        return self._failure("crashed", f"the worker was killed by {name} during {verb}")

    def _failure(self, status: str, reason: str) -> WorkerFailure:
        return WorkerFailure(status, reason, last_lines(self._log))


def last_lines(*files: Path) -> str:
    """Return the last lines of the files together; of a crash, whose traceback begins with them, the last calls.

    Those of a file that a program has removed are lost.
    """
    lines = []
    for file in files:
        with contextlib.suppress(FileNotFoundError), file.open("rb") as content:
            content.seek(max(0, os.fstat(content.fileno()).st_size - 2**14))
            lines += content.read().decode(errors="replace").splitlines()
    crash = next((n for n, line in enumerate(lines) if line.startswith("Current thread ")), len(lines))
    lines = lines[: crash + CRASH_LINES]
    return "\n".join(lines[-LOG_TAIL_LINES:])
