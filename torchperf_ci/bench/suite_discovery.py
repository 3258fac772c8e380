"""What ``torchperf suite discover`` does: it tries architectures, and keeps those that add something to the suite."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from torchperf_ci import console
from torchperf_ci.bench import selection
from torchperf_ci.bench.api_coverage import measure_use
from torchperf_ci.bench.greedy_choice import choose
from torchperf_ci.bench.process import worker_environment
from torchperf_ci.bench.selection import CaseGrid, Selection, select_cases
from torchperf_ci.bench.worker_client import Worker, WorkerFailure
from torchperf_ci.config import find as find_config
from torchperf_ci.document import counted
from torchperf_ci.errors import UsageError
from torchperf_ci.options.option import MODES
from torchperf_ci.records.files import replace_file

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from torchperf_ci.bench.case import Settings
    from torchperf_ci.bench.greedy_choice import ChosenWorkload
    from torchperf_ci.config import Config
    from torchperf_ci.options.measuring_commands import DiscoverOptions

MOST_SECONDS = 2.0
"""Of CPU time that a step of a model may take."""
_HEAD = '''"""Models that `torchperf suite discover` found, whichever adds the most per CPU second first.

A name identifies a series for good: what stands here keeps its arguments.
"""

'''
_MODULES = {
    "huggingface": "hugging_face",
    "timm_classifier": "timm_models",
    "torchvision_classifier": "torchvision_models",
}


def discover_command(options: DiscoverOptions) -> int:
    """Write a suite file of those architectures that run, and that add something to the suite.

    Raises :class:`UsageError` where there is a file already: its names are those of series.
    """
    out = Path(options.out)
    if out.exists():
        msg = f"{out} exists, and nothing is overwritten: name another file with --out"
        raise UsageError(msg)
    config = find_config(options.config)
    settings = selection.settings_of(
        config, suite=options.suite, python=options.python, device="cpu", timeout=options.timeout
    )
    try:
        with tempfile.TemporaryDirectory(prefix="torchperf-") as folder:
            found = _architectures(settings, options.filter, Path(folder))
            file = Path(folder) / "found.py"
            file.write_text(_suite_file([*found.values()]), "utf-8")
            files = (*settings.files, str(file))
            chosen = _tried(options, config, replace(settings, files=files), [*found])
    except WorkerFailure as failure:
        raise selection.error_of(failure, settings) from None
    for entry in chosen:
        print(
            f"{entry.name}: {counted(entry.adds, 'new triple')}, {entry.cpu_seconds:.2f} CPU seconds a step"
        )
    replace_file(out, _suite_file([found[entry.name] for entry in chosen]))
    console.say(f"{len(chosen)} of {counted(len(found), 'architecture')} tried run and add something: {out}")
    return 0


def _architectures(settings: Settings, filters: Sequence[str], folder: Path) -> Mapping[str, str]:
    """By the name that its workload would have, the expression that makes it."""
    environment = worker_environment(settings, folder / "cache")
    with Worker(settings.python, folder / "worker.log", environment) as worker:
        return worker.ask(
            "architectures",
            settings.timeout,
            dict[str, str],
            files=list(settings.files),
            filters=list(filters),
        )


def _tried(
    options: DiscoverOptions, config: Config, settings: Settings, found: Sequence[str]
) -> list[ChosenWorkload]:
    """Of those that run within the limit, which add something to the suite, in order."""
    under_test = selection.describe_environment(settings)
    known = selection.selected_workloads(options.suite or ["models"], (), config, under_test.known)
    first = [entry.name for entry in known]
    cases = select_cases(
        Selection([CaseGrid([*first, *found], MODES, ("fp32",), ("eager",))]), under_test.known, "cpu"
    )
    measured = measure_use(cases, under_test.settings(settings))
    failed = {case.workload for case in measured.failures}
    slow = {case.workload for case, use in measured.uses.items() if use.cpu_seconds > MOST_SECONDS}
    uses = {
        name: use
        for name, use in measured.workloads().items()
        if name in first or name not in {*failed, *slow}
    }
    chosen = choose(uses, [name for name in first if name in uses])
    return [entry for entry in chosen if entry.name in found and entry.adds]


def _suite_file(calls: Sequence[str]) -> str:
    used = {call.partition("(")[0] for call in calls}
    imports = "".join(
        f"from torchperf_ci.suite.{module} import {function}\n"
        for function, module in _MODULES.items()
        if function in used
    )
    return f"{_HEAD}{imports}\nMODELS = (\n{''.join(f'    {call},{chr(10)}' for call in calls)})\n"
