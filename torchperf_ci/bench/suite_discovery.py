"""The command ``torchperf suite discover``: try architectures and keep those that add coverage to the suite."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from torchperf_ci import console
from torchperf_ci.bench import selection
from torchperf_ci.bench.process import start_worker
from torchperf_ci.bench.selection import CaseGrid, Selection, select_cases
from torchperf_ci.bench.suite_coverage import choose, measure_use
from torchperf_ci.bench.worker_client import WorkerFailure
from torchperf_ci.config import find as find_config
from torchperf_ci.document import counted
from torchperf_ci.errors import UsageError
from torchperf_ci.options.option import MODES
from torchperf_ci.records.files import check_writable, replace_file

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from torchperf_ci.bench.case import Settings
    from torchperf_ci.bench.suite_coverage import ChosenWorkload
    from torchperf_ci.config import Config
    from torchperf_ci.options.measurement_commands import DiscoverOptions

MOST_SECONDS = 2.0
"""Most CPU seconds that a step of a model may take."""
_HEAD = '''"""Models that `torchperf suite discover` found, whichever adds the most per CPU second first.

A name identifies a series for good: what stands here keeps its arguments.
"""

'''
_MODELS = "\nMODELS = (\n"
_MODULES = {
    "huggingface": "hugging_face",
    "timm_classifier": "timm_models",
    "torchvision_classifier": "torchvision_models",
}


def discover_command(options: DiscoverOptions) -> int:
    """Write the architectures that run and add coverage to the suite into a suite file.

    Models already in the file stay, because their names identify series, and count as part of the suite. Raises
    :class:`UsageError` if the file was not written by this command.
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
        with tempfile.TemporaryDirectory(prefix="torchperf-") as folder:
            found = _architectures(settings, options.filter, Path(folder))
            file = Path(folder) / "found.py"
            file.write_text(_with_models("", [*found.values()]), "utf-8")
            files = (*settings.files, str(file))
            chosen = _tried(suite, config, replace(settings, files=files), [*found]) if found else []
    except WorkerFailure as failure:
        raise selection.error_of(failure, settings) from None
    for entry in chosen:
        print(
            f"{entry.name}: {counted(entry.adds, 'new triple')}, {entry.cpu_seconds:.2f} CPU seconds a step"
        )
    if chosen:
        replace_file(out, _with_models(before, [found[entry.name] for entry in chosen]))
    where = out if chosen else "nothing is written"
    console.say(
        f"{len(chosen)} of {counted(len(found), 'architecture')} tried run and add something: {where}"
    )
    return 0


def _text_of(out: Path) -> str:
    """Return the content of the file, empty if it does not exist. Raises :class:`UsageError` if it is not ours."""
    if not out.exists():
        return ""
    text = out.read_text("utf-8")
    if _MODELS not in text or not text.endswith("\n)\n"):
        msg = f"{out} is no suite that this command has written: name another file with --out"
        raise UsageError(msg)
    return text


def _architectures(settings: Settings, filters: Sequence[str], folder: Path) -> Mapping[str, str]:
    """Return the expression that builds each architecture, by the name that its workload would have."""
    with start_worker(settings, folder) as worker:
        return worker.ask(
            "architectures",
            settings.timeout,
            dict[str, str],
            files=list(settings.files),
            filters=list(filters),
        )


def _tried(
    suite: Sequence[str], config: Config, settings: Settings, found: Sequence[str]
) -> list[ChosenWorkload]:
    """Return the found workloads that run within the time limit and add coverage to the suite, best first."""
    under_test = selection.describe_environment(settings)
    known = selection.selected_workloads(suite, (), config, under_test.known)
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
