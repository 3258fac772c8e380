"""How much of PyTorch's API workloads use, measured in the environment under test, and which workloads add the most."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from torchperf_ci.bench.process import MEMORY_SHARE, Inquiry, build, worker_environment
from torchperf_ci.bench.worker.protocol import ApiUse, Callers, Inventory, Triple
from torchperf_ci.bench.worker_client import Worker, WorkerFailure
from torchperf_ci.console import Progress
from torchperf_ci.document import counted
from torchperf_ci.machine.devices.host_memory import available

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from torchperf_ci.bench.case import Case, Settings

HARMLESS = ("failed", "unsupported")
"""Statuses after which a worker can continue with another case."""


def together(uses: Iterable[ApiUse]) -> ApiUse:
    """Return the union of ``uses``, with their CPU seconds added up."""
    found = tuple(uses)
    return ApiUse(
        frozenset[str]().union(*(use.functions for use in found)),
        frozenset[Triple]().union(*(use.triples for use in found)),
        sum(use.cpu_seconds for use in found),
    )


@dataclass(frozen=True)
class MeasuredUse:
    """The API use measured in one environment.

    ``failures`` says why a case has no result. ``files`` counts the files of ``packages`` that call each function.
    """

    uses: Mapping[Case, ApiUse]
    failures: Mapping[Case, str]
    inventory: Inventory
    packages: Sequence[str]
    files: Mapping[str, int]

    def workloads(self) -> dict[str, ApiUse]:
        """Return, by workload, what its cases use together."""
        names = dict.fromkeys(case.workload for case in self.uses)
        return {
            name: together(use for case, use in self.uses.items() if case.workload == name) for name in names
        }

    def untested(self, use: ApiUse) -> dict[str, int]:
        """Functions that the packages call and ``use`` lacks, with the number of files, the most frequent first.

        A function also counts as tested if ``use`` has a method or an operator of the same name: ``x + 1`` tests
        ``torch.add``.
        """
        tested = {_last(name) for name in use.functions} | use.operators
        return {name: files for name, files in self.files.items() if _last(name) not in tested}


def _last(function: str) -> str:
    return function.rpartition(".")[2].strip("_")


def measure_use(cases: Sequence[Case], settings: Settings) -> MeasuredUse:
    """Run a few steps of each case in one worker, which is replaced if a case breaks it.

    Raises :class:`WorkerFailure` if not even the inventory can be read.
    """
    uses: dict[Case, ApiUse] = {}
    failures: dict[Case, str] = {}
    progress = Progress(len(cases))
    with tempfile.TemporaryDirectory(prefix="torchperf-") as folder, ExitStack() as at_end:
        at_end.callback(progress.close)
        worker = _started(settings, Path(folder), at_end)
        inventory = worker.ask("inventory", settings.timeout, Inventory)
        called = worker.ask("files_that_call", settings.timeout, Callers)
        for number, case in enumerate(cases, 1):
            progress.begins(case)
            try:
                uses[case] = _use(worker, case, settings)
                said = f"{case}: {counted(len(uses[case].triples), 'triple')}"
            except WorkerFailure as failure:
                failures[case] = str(failure)
                said = f"{case}: {failure}"
                if failure.status not in HARMLESS:
                    worker.close()
                    worker = _started(settings, Path(folder), at_end)
            progress.ended(said, number, failed=case in failures)
    return MeasuredUse(uses, failures, inventory, called.packages, called.files)


def _use(worker: Worker, case: Case, settings: Settings) -> ApiUse:
    inquiry = Inquiry(worker, settings.timeout)
    build(inquiry, case, settings)
    return inquiry.ask("api_use", ApiUse)


def _started(settings: Settings, folder: Path, at_end: ExitStack) -> Worker:
    environment = worker_environment(settings, folder / "cache")
    limit = int(available() * MEMORY_SHARE) or None
    return at_end.enter_context(
        Worker(settings.python, folder / "worker.log", environment, settings.cpus, limit)
    )


@dataclass(frozen=True)
class ChosenWorkload:
    """A workload and its coverage in triples (operator family, dtype, layout).

    ``adds`` counts the triples that no workload chosen earlier has, ``alone`` those that no other workload has.
    """

    name: str
    cpu_seconds: float
    triples: int
    adds: int
    alone: int


def choose(uses: Mapping[str, ApiUse], first: Sequence[str]) -> list[ChosenWorkload]:
    """Order all of ``uses``: ``first`` as given, then whichever adds the most triples per CPU second, ties by name."""
    covered = together(uses[name] for name in first)
    order, left = [*first], {*uses} - {*first}
    while left:
        best = min(
            left, key=lambda name: (-len(uses[name].triples - covered.triples) / uses[name].cpu_seconds, name)
        )
        order.append(best)
        left.remove(best)
        covered = together((covered, uses[best]))
    return [_described(order, number, uses) for number in range(len(order))]


def _described(order: Sequence[str], number: int, uses: Mapping[str, ApiUse]) -> ChosenWorkload:
    name = order[number]
    before = together(uses[other] for other in order[:number])
    others = together(uses[other] for other in order if other != name)
    own = uses[name]
    return ChosenWorkload(
        name,
        own.cpu_seconds,
        len(own.triples),
        len(own.triples - before.triples),
        len(own.triples - others.triples),
    )
