"""What ``torchperf run``, ``list`` and ``doctor`` do with their options."""

from __future__ import annotations

import json
import sys
from contextlib import nullcontext
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torchperf_ci import actions, console
from torchperf_ci.bench import planning, summary
from torchperf_ci.bench.anchor import Anchor, find
from torchperf_ci.bench.client import WorkerFailure
from torchperf_ci.bench.exercising import exercise
from torchperf_ci.bench.results import CaseResult, Setting
from torchperf_ci.bench.run import Plan, run
from torchperf_ci.bench.selection import select
from torchperf_ci.config import Config
from torchperf_ci.config import find as find_config
from torchperf_ci.document import Column
from torchperf_ci.errors import EnvironmentUnderTestError, UsageError, WorkloadsFailedError
from torchperf_ci.machine import fingerprint
from torchperf_ci.machine.devices import installed
from torchperf_ci.machine.doctor import examine, verdict
from torchperf_ci.machine.placement import quiet_cpus
from torchperf_ci.machine.runner import runner_entry
from torchperf_ci.machine.tuning import TuningReport, tuned
from torchperf_ci.records.record import Dependency
from torchperf_ci.wording import counted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from torchperf_ci.bench.case import Case, Settings
    from torchperf_ci.bench.planning import UnderTest
    from torchperf_ci.bench.selection import Selection
    from torchperf_ci.machine.devices.base import Device
    from torchperf_ci.machine.noise import Exercise
    from torchperf_ci.options import DoctorOptions, ListOptions, RunOptions

DEFAULT_OUT = "torchperf-records"
_WORKLOADS = (Column("workload"), Column("modes"), Column("task", "prose"))


def run_command(options: RunOptions) -> int:
    """Measure, write the records, and tell people; raises :class:`WorkloadsFailedError` where workloads failed."""
    config = find_config(options.config)
    settings = _settings(options, config)
    under_test = planning.describe(settings)
    settings = under_test.settings(settings)
    cases = select(_selection(options, config), under_test.known, settings.device)
    anchor = find(options.anchor, settings)
    out = Path(options.out or DEFAULT_OUT)
    if options.dry_run:
        _show_plan(cases, settings, anchor, out)
        return 0
    with tuned(under_test.device) if options.tune else nullcontext() as tuning:
        if not options.no_pin:
            settings = replace(settings, cpus=quiet_cpus(settings.threads, under_test.device))
        setting = _setting(options.benchmark_name or config.name, settings, under_test, anchor, tuning)
        # Said before anything can go wrong, so that a later step finds what an interrupted run has kept.
        actions.set_output("records-dir", str(out.absolute()))
        results = run(Plan(cases, setting, under_test.device, out, options.resume))
    _tell(results, setting, out, json_output=options.json)
    failed = summary.failures(results)
    if failed and options.on_failure != "warn":
        msg = f"{summary.headline(results)}; the log of each is in its status record in {out}"
        raise WorkloadsFailedError(msg)
    return 0


def _settings(options: RunOptions, config: Config) -> Settings:
    return planning.settings(
        config,
        suite=options.suite,
        python=options.python,
        device=options.device,
        processes=options.processes,
        target_ci=options.target_ci,
        budget=options.budget,
        timeout=options.timeout,
        threads=options.threads,
    )


def _selection(options: RunOptions, config: Config) -> Selection:
    return planning.selection(options, config, options.suite, options.filter, options.shard, options.costs)


def list_command(options: ListOptions) -> int:
    """Print the selected part of the catalogue of the environment under test, by default all of it."""
    config = find_config(options.config)
    under_test = planning.describe(
        planning.settings(config, suite=options.suite, python=options.python, device=options.device)
    )
    entries = planning.selected_workloads(options.suite, options.filter, config, under_test.known)
    if options.json:
        _print_json(
            {"workloads": entries, "suites": under_test.known.suites, "unavailable": under_test.unavailable}
        )
        return 0
    rows = [
        *((entry["name"], ", ".join(entry["modes"]), entry["task"]) for entry in entries),
        *((name, "not available", reason) for name, reason in under_test.unavailable.items()),
    ]
    with actions.literal(sys.stdout):
        console.print_table(_WORKLOADS, rows, sys.stdout)
    return 0


def doctor_command(options: DoctorOptions) -> int:
    """Print the findings about this machine, and about the device that is given or that torch would use."""
    device, exercised = _to_examine(options)
    findings = examine(device, exercise=exercised)
    if options.json:
        _print_json({"verdict": verdict(findings), "findings": [asdict(finding) for finding in findings]})
    else:
        summary.show_findings(findings, sys.stdout)
    return 0


def _to_examine(options: DoctorOptions) -> tuple[Device, Exercise | None]:
    """The device, and how it does its work, where there is a torch to give it some."""
    settings = planning.settings(Config(), python=options.python, device=options.device)
    try:
        settings = planning.describe(settings).settings(settings)
    except (EnvironmentUnderTestError, UsageError) as error:
        if settings.device == "auto":
            console.say(f"torchperf: only the CPU is examined, because {error}, or the device with --device")
        return installed(settings.device.replace("auto", "cpu")), None
    if settings.device == "cpu":
        return settings.hardware, None
    try:
        return settings.hardware, exercise(settings)
    except WorkerFailure as failure:
        console.say(f"torchperf: {settings.device} was given no work: {failure}")
        return settings.hardware, None


def _show_plan(cases: Sequence[Case], settings: Settings, anchor: Anchor | None, out: Path) -> None:
    console.say(*map(str, cases), out=sys.stdout)
    pairs = f" and pairs with {anchor.build}" if anchor else ""
    each = f"{counted(settings.processes, 'process', 'processes')}{pairs} each"
    print(f"{counted(len(cases), 'case')}, {each}, on {settings.device}, records to {out}")


def _tell(results: Sequence[CaseResult], setting: Setting, out: Path, *, json_output: bool) -> None:
    """The table for people, JSON for programs, and summary, annotations and outputs for a job."""
    shown = sys.stderr if json_output else sys.stdout
    with actions.literal(shown):
        summary.table(results, shown)
    if json_output:
        _print_json(summary.as_json(results, setting))
    console.say(
        *filter(
            None,
            [
                f"{summary.headline(results)}; records in {out}",
                summary.conditions(results),
                summary.power(results),
            ],
        )
    )
    if not actions.in_actions():
        return
    actions.append_summary(summary.markdown(results, setting))
    actions.annotate(summary.failure_annotations(results))
    actions.set_output("passed", str(sum(result.status == "pass" for result in results)))
    actions.set_output("failed", str(len(summary.failures(results))))


def _print_json(data: Any) -> None:
    print(actions.inert_json(json.dumps(data, indent=2)))


def _setting(
    name: str, settings: Settings, under_test: UnderTest, anchor: Anchor | None, tuning: TuningReport | None
) -> Setting:
    environment, device = under_test.environment, under_test.device
    found = fingerprint.take(
        device, environment["observed"], environment["comparable"], tuning, cpus=settings.cpus
    )
    return Setting(
        benchmark=name,
        settings=settings,
        runner=runner_entry(device.identity(), found),
        dependencies=_dependencies(environment),
        fingerprint=found.digest,
        host_is_device=settings.device == "cpu",
        anchor=anchor,
    )


def _dependencies(environment: Mapping[str, Any]) -> dict[str, Dependency]:
    torch = Dependency(
        repo="pytorch/pytorch", sha=environment["torch_commit"], version=environment["torch_version"]
    )
    others = {name: Dependency(version=version) for name, version in environment["dependencies"].items()}
    return {"pytorch": torch, **others}
