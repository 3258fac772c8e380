"""The commands ``torchperf suite coverage`` and ``suite discover``: how much of PyTorch workloads use, and could use.

The first reports what they use, the second tries architectures and keeps those that add coverage to the suite.
"""

from __future__ import annotations

import sys
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from torchperf_ci import console
from torchperf_ci.bench import selection
from torchperf_ci.bench.process import WorkerConversation, build, start_worker
from torchperf_ci.bench.selection import Selection, select_cases
from torchperf_ci.bench.worker.protocol import ApiUse, Callers, Inventory, Triple
from torchperf_ci.bench.worker_client import Worker, WorkerFailure
from torchperf_ci.command_output import print_json
from torchperf_ci.config import Config, Suite, find_config
from torchperf_ci.console import Progress, waiting
from torchperf_ci.document import Block, Column, Document, Note, Paragraph, Table, counted, text_of
from torchperf_ci.errors import UsageError
from torchperf_ci.options.option import MODES
from torchperf_ci.records.files import check_writable, replace_file
from torchperf_ci.scratch import scratch_folder

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from torchperf_ci.bench.case import Case, Settings
    from torchperf_ci.options.measurement_commands import CoverageOptions, DiscoverOptions


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


def measure_use(
    cases: Sequence[Case], settings: Settings, worker: Worker, *, count_files: bool
) -> MeasuredUse:
    """Run a few steps of each case in ``worker``, which is replaced if a case breaks it.

    Without ``count_files``, the files of packages are not read, which takes seconds. Raises
    :class:`WorkerFailure` if not even the inventory can be read.
    """
    uses: dict[Case, ApiUse] = {}
    failures: dict[Case, str] = {}
    progress = Progress(len(cases))
    with scratch_folder() as folder, ExitStack() as at_end:
        at_end.callback(progress.close)
        inventory = worker.ask("inventory", settings.timeout, Inventory)
        called = Callers([], {})
        if count_files:
            called = worker.ask("files_that_call", settings.timeout, Callers)
        for number, case in enumerate(cases, 1):
            progress.begin(case)
            try:
                conversation = WorkerConversation(worker, settings.timeout)
                build(conversation, case, settings)
                uses[case] = conversation.ask("api_use", ApiUse)
                line = f"{case}: {counted(len(uses[case].triples), 'triple')}"
            except WorkerFailure as failure:
                failures[case] = str(failure)
                line = f"{case}: {failure}"
                if failure.status not in HARMLESS:
                    worker.close()
                    worker = at_end.enter_context(start_worker(settings, folder))
            progress.end(line, number, failed=case in failures)
    return MeasuredUse(uses, failures, inventory, called.packages, called.files)


def choose(uses: Mapping[str, ApiUse], first: Sequence[str]) -> dict[str, int]:
    """Order all of ``uses``: ``first`` as given, then whichever adds the most triples per CPU second, ties by name.

    Returns how many triples (operator family, dtype, layout) each adds to those before it.
    """
    covered = frozenset[Triple]()
    chosen: dict[str, int] = {}
    for number in range(len(uses)):
        best = (
            first[number]
            if number < len(first)
            else min(
                uses.keys() - chosen.keys(),
                key=lambda name: (-len(uses[name].triples - covered) / uses[name].cpu_seconds, name),
            )
        )
        chosen[best] = len(uses[best].triples - covered)
        covered |= uses[best].triples
    return chosen


MAX_UNTESTED = 20
"""Most untested functions in the table; ``--json`` has all."""
METHOD = {
    "public functions": "called from Python around one step, of those in torch.overrides.get_testing_overrides(); not "
    "what they call in their turn, nor the backward pass",
    "ATen families": "dispatched in one step and its backward pass; of the operators with a kernel for the CPU or for "
    "all devices, without out variants, an in-place variant being the same as the other",
    "core ATen operators": "those families of which an operator has torch's tag core",
    "triples": "family, dtype and layout of its first tensor; how many there could be is unknown",
}


def coverage_command(options: CoverageOptions) -> int:
    """Count on the CPU what the suite uses of PyTorch and what the candidates would add."""
    config = find_config(options.config)
    suites = [*options.suite, *options.candidate]
    settings = selection.settings_of(
        config, suite=suites, python=options.python, device="cpu", timeout=options.timeout
    )
    with selection.described_worker(settings) as (worker, under_test):
        known = under_test.known
        entries = selection.selected_workloads(options.suite or ["all"], options.filter, config, known)
        suite = [entry.name for entry in entries]
        more = selection.selected_workloads(options.candidate, (), config, known)
        candidates = [entry.name for entry in more if options.candidate and entry.name not in suite]
        grid = Suite((*suite, *candidates), tuple(options.mode) or MODES)
        cases = select_cases(Selection([grid]), known, "cpu")
        try:
            measured = measure_use(cases, settings, worker, count_files=True)
        except WorkerFailure as failure:
            raise selection.error_of(failure, settings) from None
    if options.json:
        print_json(as_json(measured, suite), indent=1)
        return 0
    document = coverage_document(measured, suite, under_test.environment.torch_version)
    most = max(len(cases), console.MAX_ROWS)
    console.print_document(document, sys.stdout, most=most, rest="all of them with --json")
    console.say(text_of(document.title))
    return 0


def coverage_document(measured: MeasuredUse, suite: Sequence[str], torch: str) -> Document:
    """Show the suite's coverage, what each workload and candidate adds, and often called functions without a test."""
    workloads = measured.workloads()
    known = {name: use for name, use in workloads.items() if name in suite}
    total = together(known.values())
    candidates = [(name, use, use.beside(total)) for name, use in workloads.items() if name not in known]
    candidates.sort(key=lambda row: -len(row[2]["triples"]) / row[1].cpu_seconds)
    blocks: list[Block] = [
        _shares(total, measured.inventory),
        Paragraph("Counted on the CPU, in one step of each workload and mode that follows a first one."),
        _table(
            "New: what no other workload uses",
            [
                (name, use, use.beside(together(other for other in known.values() if other is not use)))
                for name, use in known.items()
            ],
        ),
        _table("What each candidate adds, the most triples per CPU second first", candidates),
        _untested(measured.untested(total), measured.packages),
        Note(_not_counted(measured.failures)),
    ]
    who = counted(len(known), "workload uses", "workloads use")
    return Document(f"{who} {counted(len(total.triples), 'triple')} of torch {torch}", blocks)


def _shares(total: ApiUse, inventory: Inventory) -> Table:
    def row(kind: str, used: int, of: int) -> tuple[str, ...]:
        return kind, f"{used:,}", f"{of:,}", f"{used / of:.1%}", METHOD[kind]

    rows = [
        row("public functions", len(total.functions), len(inventory.functions)),
        row("ATen families", len(total.operators & inventory.families), len(inventory.families)),
        row("core ATen operators", len(total.operators & inventory.core), len(inventory.core)),
        ("triples", f"{len(total.triples):,}", "", "", METHOD["triples"]),
    ]
    numbers = (Column("used", "number"), Column("of", "number"), Column("share", "number"))
    return Table((Column("what"), *numbers, Column("how it is counted", "prose")), rows)


def _table(title: str, rows: Iterable[tuple[str, ApiUse, Mapping[str, frozenset[str | Triple]]]]) -> Table:
    kinds = ApiUse().by_kind
    columns = [
        Column(name, "number") for name in (*kinds, *(f"new {kind}" for kind in kinds), "CPU ms a step")
    ]
    cells = [
        (
            name,
            *(str(len(names)) for names in (*use.by_kind.values(), *added.values())),
            f"{1000 * use.cpu_seconds:,.1f}",
        )
        for name, use, added in rows
    ]
    return Table((Column("workload"), *columns), cells, title)


def _not_counted(failures: Mapping[Case, str]) -> list[str]:
    modes: dict[tuple[str, str], list[str]] = {}
    for case, why in failures.items():
        modes.setdefault((case.workload, why), []).append(case.mode)
    return [f"not counted: {name} {', '.join(which)}: {why}" for (name, why), which in modes.items()]


def _untested(files: Mapping[str, int], packages: Sequence[str]) -> Table:
    """Table of functions that installed packages call and the suite does not; empty without such packages."""
    rows = [(name, f"{number:,}") for name, number in [*files.items()][:MAX_UNTESTED]]
    title = f"Not tested by the suite, and called in the most files of {', '.join(packages)}"
    return Table((Column("function"), Column("files", "number")), rows, title)


def as_json(measured: MeasuredUse, suite: Sequence[str]) -> dict[str, object]:
    """Return all measured data as JSON: the names that each case uses, and what each candidate adds."""
    workloads = measured.workloads()
    total = together(use for name, use in workloads.items() if name in suite)
    return {
        "method": METHOD,
        "all": _sorted(vars(measured.inventory)),
        "suite": _sorted(total.by_kind),
        "cases": [
            {
                "workload": case.workload,
                "mode": case.mode,
                **_sorted(use.by_kind),
                "cpu_seconds": use.cpu_seconds,
            }
            for case, use in measured.uses.items()
        ],
        "candidates": {
            name: _sorted(use.beside(total)) for name, use in workloads.items() if name not in suite
        },
        "untested": measured.untested(total),
        "packages": list(measured.packages),
        "failures": [
            {"workload": case.workload, "mode": case.mode, "reason": why}
            for case, why in measured.failures.items()
        ],
    }


def _sorted(by_kind: Mapping[str, frozenset[str | Triple]]) -> dict[str, object]:
    return {kind: sorted(names) for kind, names in by_kind.items()}


MAX_SECONDS = 2.0
"""Most CPU seconds that a step of a model may take."""
_HEAD = '''"""Models that `torchperf suite discover` found, whichever adds the most per CPU second first.

A name identifies a series for good: what stands here keeps its arguments.
"""

'''
_MODELS = "\nMODELS = (\n"
_MODULES = {
    "huggingface": "hugging_face",
    "timm_classifier": "timm_and_torchvision",
    "torchvision_classifier": "timm_and_torchvision",
}
LIBRARIES = "the transformers, timm and torchvision that are installed"


def discover_command(options: DiscoverOptions) -> int:
    """Write the architectures that run and add coverage to the suite into a suite file.

    Models already in the file stay, because their names identify series, and count as part of the suite. Raises
    :class:`UsageError` if the file was not written by this command, or if nothing passes the filters.
    """
    out = Path(options.out)
    check_writable(out)
    before = _text_of(out)
    config = find_config(options.config)
    suite = [*(options.suite or ["models"]), *([str(out)] if before else [])]
    settings = selection.settings_of(
        config, suite=suite, python=options.python, device="cpu", timeout=options.timeout
    )
    try:
        with scratch_folder() as folder:
            found = _architectures(settings, options.filter)
            file = folder / "found.py"
            file.write_text(_with_models("", [*found.values()]), "utf-8")
            files = (*settings.files, str(file))
            chosen = _worthwhile(suite, config, replace(settings, files=files), [*found]) if found else {}
    except WorkerFailure as failure:
        raise selection.error_of(failure, settings) from None
    for name, (adds, cpu_seconds) in chosen.items():
        print(f"{name}: {counted(adds, 'new triple')}, {cpu_seconds:.2f} CPU seconds a step")
    if chosen:
        replace_file(out, _with_models(before, [found[name] for name in chosen]))
    lacked = "" if found else f", as the suite lacks none of {LIBRARIES}"
    where = out if chosen else f"nothing is written{lacked}"
    console.say(
        f"{len(chosen):,} of {counted(len(found), 'architecture')} tried run and add something: {where}"
    )
    return 0


def _text_of(out: Path) -> str:
    """Return the content of the file, empty if it does not exist. Raises :class:`UsageError` if it is not ours."""
    if not out.exists():
        return ""
    text = out.read_text("utf-8")
    if _MODELS not in text or not text.endswith("\n)\n"):
        raise UsageError(f"{out} is not a suite that this command has written: name another file with --out")
    return text


def _architectures(settings: Settings, filters: Sequence[str]) -> Mapping[str, str]:
    """Return the expression that builds each architecture, by the name that its workload would have.

    Raises :class:`UsageError` if the filters match none, and no workload of the suite either.
    """
    with selection.described_worker(settings) as (worker, under_test), waiting("looking through libraries"):
        found = worker.ask(
            "architectures",
            settings.timeout,
            dict[str, str],
            files=list(settings.files),
            filters=list(filters),
        )
    if not found and not any(selection.matches(name, filters) for name in under_test.known.workloads):
        raise UsageError(f"nothing passes --filter {','.join(filters)}: no architecture of {LIBRARIES}")
    return found


def _worthwhile(
    suite: Sequence[str], config: Config, settings: Settings, found: Sequence[str]
) -> dict[str, tuple[int, float]]:
    """Return the found workloads that run within the time limit and add coverage to the suite, best first.

    Each has the number of triples that it adds, and the CPU seconds of its steps.
    """
    with selection.described_worker(settings) as (worker, under_test):
        known = selection.selected_workloads(suite, (), config, under_test.known)
        first = [entry.name for entry in known]
        cases = select_cases(Selection([Suite((*first, *found), MODES)]), under_test.known, "cpu")
        measured = measure_use(cases, settings, worker, count_files=False)
    failed = {case.workload for case in measured.failures}
    slow = {case.workload for case, use in measured.uses.items() if use.cpu_seconds > MAX_SECONDS}
    uses = {
        name: use
        for name, use in measured.workloads().items()
        if name in first or name not in {*failed, *slow}
    }
    chosen = choose(uses, [name for name in first if name in uses])
    return {name: (adds, uses[name].cpu_seconds) for name, adds in chosen.items() if name in found and adds}


def _with_models(before: str, calls: Sequence[str]) -> str:
    """Return the text of the suite file with ``calls`` appended to its models. If ``before`` is empty, start a file."""
    head, _, models = (before or f"{_HEAD}{_MODELS})\n").partition(_MODELS)
    used = {call.partition("(")[0] for call in calls}
    imports = "".join(
        line
        for function, module in _MODULES.items()
        if function in used and (line := f"from torchperf_ci.suite.{module} import {function}\n") not in head
    )
    added = "".join(f"    {call},\n" for call in calls)
    return f"{head}{imports}{_MODELS}{models.removesuffix(')' + chr(10))}{added})\n"
