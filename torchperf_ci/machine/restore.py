"""The parent's end of the restorer: every change to the machine is remembered there before it is made."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, cast

from torchperf_ci.errors import NotRestoredError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

PROGRAM = Path(__file__).with_name("restorer.py")
ANSWER_SECONDS = 30.0
RUNNER_MARK = "RUNNER_TRACKING_ID"
"""By this variable a GitHub runner finds, and ends, what a job left running."""
SILENT = "the restoring process does not answer"


class CannotRestoreError(Exception):
    """A state could not be brought back, so it must not be changed; the message says why."""


class Restorer:
    """Remembers states of the machine; restores them when told, or when this process dies in any way.

    It is a process in a session of its own, so that neither Ctrl-C nor the end of a cancelled job reaches it
    before its work is done.
    """

    def __init__(self) -> None:
        environment = {name: value for name, value in os.environ.items() if name != RUNNER_MARK}
        self._process = subprocess.Popen(
            [sys.executable, str(PROGRAM)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,
            env=environment,
        )
        self._input = cast("IO[bytes]", self._process.stdin)
        self._output = cast("IO[bytes]", self._process.stdout)
        self._received = b""
        self._answers = True

    def remember(self, state: Mapping[str, str]) -> None:
        """Remember one state, as the restorer's page describes it; raises :class:`CannotRestoreError`."""
        answer = self._ask(state) if self._answers else {}
        # An answer that comes too late would be taken for that to the next question.
        self._answers = bool(answer)
        if not answer.get("ok"):
            raise CannotRestoreError(str(answer.get("why", SILENT)))

    def restore(self) -> None:
        """Bring every state back; raises :class:`NotRestoredError` for what stayed changed."""
        self._input.close()
        answer = self._receive()
        while answer and "failed" not in answer:
            answer = self._receive()
        self._output.close()
        if answer:
            self._process.wait(ANSWER_SECONDS)
        if failed := answer.get("failed", [SILENT]):
            msg = "tuning left this machine changed; set back by hand:\n" + "\n".join(failed)
            raise NotRestoredError(msg)

    def _ask(self, state: Mapping[str, str]) -> Mapping[str, Any]:
        try:
            self._input.write(json.dumps(dict(state)).encode() + b"\n")
        except BrokenPipeError:
            return {}
        return self._receive()

    def _receive(self) -> Mapping[str, Any]:
        """One answer; empty if none comes in time."""
        deadline = time.monotonic() + ANSWER_SECONDS
        while b"\n" not in self._received:
            left = max(deadline - time.monotonic(), 0)
            if not select.select([self._output], [], [], left)[0]:
                return {}
            received = os.read(self._output.fileno(), 2**16)
            if not received:
                return {}
            self._received += received
        line, _, self._received = self._received.partition(b"\n")
        return cast("Mapping[str, Any]", json.loads(line))


@contextmanager
def restoring() -> Iterator[Restorer]:
    """A restorer for the length of the block; at its end everything comes back."""
    restorer = Restorer()
    try:
        yield restorer
    finally:
        restorer.restore()
