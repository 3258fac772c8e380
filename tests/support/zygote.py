"""Runs ``torchperf`` in separate processes that start at once, as forks of one that has imported everything.

A kill at a random moment then meets the command at work, and not Python starting up.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


class Zygote:
    """Runs commands in the caller's working directory and environment."""

    def __init__(self, requests: IO[str], answers: IO[str]) -> None:
        self._requests, self._answers = requests, answers

    def run(self, argv: Sequence[str], kill_after: float | None = None) -> int | None:
        """The exit code of ``torchperf ARGV``; None where SIGKILL ended it, ``kill_after`` seconds in."""
        (code,) = self.run_together([argv], kill_after)
        return code

    def run_together(
        self, argvs: Sequence[Sequence[str]], kill_after: float | None = None
    ) -> list[int | None]:
        """The same of several commands, which start at once."""
        request = {
            "argvs": argvs,
            "kill_after": kill_after,
            "cwd": str(Path.cwd()),
            "environ": dict(os.environ),
        }
        self._requests.write(f"{json.dumps(request)}\n")
        self._requests.flush()
        codes: list[int | None] = json.loads(self._answers.readline())
        return codes


@contextmanager
def running_zygote() -> Iterator[Zygote]:
    command = [sys.executable, __file__]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin
        assert process.stdout
        yield Zygote(process.stdin, process.stdout)
        process.stdin.close()
        process.wait(timeout=60)


LOADED = (
    "clickhouse_connect",
    "torchperf_ci.places.s3",
    "torchperf_ci.store.command",
    "torchperf_ci.upload.command",
    "torchperf_ci.upload.targets",
    "torchperf_ci.web.documents",
)
"""What commands import. The embedded engine is not among it: it starts threads, which no fork survives."""


def _serve() -> None:
    for module in LOADED:
        import_module(module)
    from torchperf_ci.records.reading import parse_records

    parse_records(b'{"metric": {}}', "")  # loads what checks records

    for line in sys.stdin:
        print(json.dumps(_answer(json.loads(line))), flush=True)


def _answer(request: dict[str, Any]) -> list[int | None]:
    children = []
    for argv in request["argvs"]:
        child = os.fork()
        if not child:
            _become(request, argv)
        children.append(child)
    return [_end(child, request["kill_after"]) for child in children]


def _end(child: int, kill_after: float | None) -> int | None:
    """Wait for the end of a child, and bring it about after a while."""
    started, killed = time.monotonic(), False
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.WEXITSTATUS(status) if os.WIFEXITED(status) else None
        if kill_after is not None and time.monotonic() - started >= kill_after and not killed:
            os.kill(child, signal.SIGKILL)
            killed = True
        time.sleep(0.001)


def _become(request: dict[str, Any], argv: Sequence[str]) -> None:
    from torchperf_ci import cli

    code = 70
    try:
        # The embedded engine makes its stdin non-blocking while it inserts. A kill at that moment would leave ours so,
        # and what reads requests would take "nothing yet" for the end of the file.
        os.dup2(os.open(os.devnull, os.O_RDONLY), sys.stdin.fileno())
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        os.chdir(request["cwd"])
        os.environ.clear()
        os.environ.update(request["environ"])
        code = cli.main(argv)
        sys.stderr.flush()
    finally:
        os._exit(code)


if __name__ == "__main__":
    _serve()
