"""Trace one process of a case to find which files it reads and which operators it runs."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from torchperf_ci.bench.process import WorkerConversation, open_worker, prepare
from torchperf_ci.bench.worker.protocol import Compilation, Done, OperatorsRun, Peak, UnbuiltDevices

if TYPE_CHECKING:
    from collections.abc import Iterable

    from torchperf_ci.bench.case import Case, Settings

HARMLESS_PROGRAMS = frozenset(
    {
        *("as", "c++", "cc", "clang", "clang++", "g++", "gcc", "icpx", "ld", "nvcc", "ptxas", "hipcc"),
        *("ldconfig", "lscpu", "uname", "nvidia-smi", "rocm-smi", "sysctl"),
    }
)
"""Compilers and programs that describe the machine. They read no Python files."""
SYSTEM = (("/", "bin"), ("/", "opt"), ("/", "sbin"), ("/", "usr"))


@dataclass(frozen=True)
class FilesRead:
    """The paths that Python opened, both as given and with links resolved.

    ``startup`` are those of the paths that run before tracing can start. ``unknown`` lists what could not be traced.
    ``operators`` are the operators that the steps run, without namespace and overload; empty if not requested.
    """

    paths: frozenset[str]
    startup: frozenset[str] = frozenset()
    unknown: tuple[str, ...] = ()
    operators: frozenset[str] = frozenset()


def files_read(case: Case, settings: Settings, scratch: Path, *, operators: bool = False) -> FilesRead:
    """Build and run the case as a measurement does, traced from before its suite file is read.

    Raises :class:`WorkerFailure` if the case cannot be measured.
    """
    log = scratch / f"{case.key}.files"
    with open_worker(case, settings, scratch) as worker:
        conversation = WorkerConversation(worker, settings.timeout)
        conversation.ask("begin_file_trace", Done, log=str(log))
        if operators:
            conversation.ask("begin_operator_trace", Done)
        prepare(conversation, replace(case, batch_size=case.batch_size or 1), settings)
        conversation.ask("peak", Peak)
        if case.compiled:
            conversation.ask("compilation", Compilation)
        ran = conversation.ask("operators", OperatorsRun) if operators else OperatorsRun((), ())
        conversation.ask("end_file_trace", Done)
    read = _read(log.read_text("utf-8").splitlines())
    return replace(read, unknown=(*read.unknown, *ran.unknown), operators=frozenset(ran.operators))


def unbuilt_devices(case: Case, settings: Settings, scratch: Path) -> tuple[str, ...]:
    """Return the ATen folders of devices that this torch was not built for. Raises :class:`WorkerFailure`."""
    with open_worker(case, settings, scratch) as worker:
        return tuple(worker.ask("unbuilt_devices", settings.timeout, UnbuiltDevices).devices)


def _read(lines: Iterable[str]) -> FilesRead:
    facts: dict[str, set[str]] = {"file": set(), "startup": set(), "program": set(), "unseen": set()}
    for line in lines:
        kind, value = json.loads(line)
        facts[kind].add(value)
    programs = sorted(program for program in facts["program"] if not _is_harmless(program))
    unknown = [*sorted(facts["unseen"]), *(f"it starts {name}, which nobody follows" for name in programs)]
    return FilesRead(frozenset(facts["file"]), frozenset(facts["startup"]), tuple(unknown))


def _is_harmless(program: str) -> bool:
    """Whether a program reads no Python.

    A program of a known name counts only without a path or in a system folder, because a repository may have its own
    program of the same name.
    """
    path = Path(program)
    return path.name in HARMLESS_PROGRAMS and (path.name == program or path.parts[:2] in SYSTEM)
