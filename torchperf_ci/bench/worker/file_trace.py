"""Log which files a process opens through Python and which programs it starts, as it happens.

Python calls its audit hooks for every file that it opens, whether to import it, execute it or read it as data. A hook
cannot be removed, and a forked child inherits it, so the child's files are in the same log.
"""

from __future__ import annotations

import importlib.util
import json
import os
import resource
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PROGRAMS = {
    "subprocess.Popen": 0,
    "os.system": 0,
    "os.exec": 0,
    "os.posix_spawn": 0,
    "os.spawn": 1,
    "pty.spawn": 0,
}
"""Audit events that start a program, and the position of the program among their arguments."""
UNSEEN = ("cpython.PyInterpreterState_New", "_interpreters.create")
"""Audit events after which a hook no longer sees everything."""


@dataclass
class FileTrace:
    """Writes each fact once, as a line of JSON: ``["file", path]``, ``["startup", path]``, ``["program", path]`` or
    ``["unseen", why]``.

    The path of a file that does not exist is written as given, so it may be relative. The log is reopened for each
    line, because a workload may close all open files.
    """

    log: str
    _written: set[tuple[str, str]] = field(default_factory=set)
    _faults_of_children: int = 0

    def begin(self) -> None:
        """Start tracing this process, and log the modules that it has already imported."""
        self._write_modules()
        self._watch_multiprocessing()
        self._faults_of_children = _faults_of_children()
        sys.addaudithook(self._heard)

    def end(self) -> None:
        """Log the modules imported by now, and whether a child process ran that no audit event announced."""
        self._write_modules()
        ended = _faults_of_children() > self._faults_of_children
        if ended and not any(kind in ("program", "fork") for kind, _ in self._written):
            self._write("unseen", "a process was started that Python does not know of")

    def _heard(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open":
            self._write_file(arguments[0])
        elif event in PROGRAMS:
            self._write("program", _text(arguments[PROGRAMS[event]]))
        elif event in ("os.fork", "os.forkpty"):
            self._written.add(("fork", ""))
        elif event in UNSEEN:
            self._write("unseen", event)

    def _watch_multiprocessing(self) -> None:
        """Wrap the function by which ``multiprocessing`` starts processes, because it raises no audit event."""
        import _posixsubprocess

        start = _posixsubprocess.fork_exec

        def fork_exec(arguments: Any, *others: Any) -> int:
            self._write("program", _text(next(iter(arguments), "")))
            return start(arguments, *others)

        _posixsubprocess.fork_exec = fork_exec

    def _write_modules(self) -> None:
        for module in [*sys.modules.values()]:
            self._write_file(getattr(module, "__file__", None))
        for name in ("sitecustomize", "usercustomize"):
            if path := getattr(sys.modules.get(name), "__file__", None):
                self._write("startup", path)

    def _write_file(self, given: object) -> None:
        if not isinstance(given, (str, bytes, os.PathLike)):
            return  # a file descriptor: the file is open already
        path = os.fsdecode(given)
        if path == self.log:
            return
        if not os.path.exists(path):  # noqa: PTH110  # cheap, and called for every file
            self._write("file", path)
            return
        self._write("file", os.path.abspath(path))  # noqa: PTH100
        self._write("file", os.path.realpath(path))
        if path.endswith(".pyc"):
            self._write("file", _source_of(path))

    def _write(self, kind: str, value: str) -> None:
        if (kind, value) in self._written:
            return
        self._written.add((kind, value))
        log = os.open(self.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(log, json.dumps([kind, value]).encode() + b"\n")
        finally:
            os.close(log)


def _faults_of_children() -> int:
    """Page faults of all child processes that have ended. Every process has some, so growth reveals a child."""
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_minflt


def _text(program: object) -> str:
    return os.fsdecode(program) if isinstance(program, (str, bytes, os.PathLike)) else str(program)


def _source_of(path: str) -> str:
    try:
        return os.path.realpath(importlib.util.source_from_cache(path))
    except ValueError:
        return str(Path(path).with_suffix(".py"))
