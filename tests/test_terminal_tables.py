"""The tables of every command at common terminal widths, with realistic values: nothing is cut off."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import made_night
import pytest
from made_points import noisy, row, series
from worker_answers import answers as told_by_worker

from torchperf_ci import config
from torchperf_ci.bench.case import Case, Settings
from torchperf_ci.bench.commands import WORKLOAD_COLUMNS
from torchperf_ci.bench.process import ProcessOutcome
from torchperf_ci.bench.results import CaseResult, RunSetting
from torchperf_ci.bench.summary import findings_document, run_document
from torchperf_ci.console import WIDTH, print_document, print_table
from torchperf_ci.culprits.culprit_document import bisection_document
from torchperf_ci.document import Document, Folded, Replaceable, Table, shown_on, text_of
from torchperf_ci.errors import ConflictError, NotDeliveredError
from torchperf_ci.history import history_document
from torchperf_ci.machine.devices.cpu import Cpu
from torchperf_ci.machine.doctor import diagnose
from torchperf_ci.machine.examination import machine_state
from torchperf_ci.plan.command import jobs_document
from torchperf_ci.plan.jobs import jobs_of
from torchperf_ci.records.record import Dependency
from torchperf_ci.series.policy import rule_of_metric
from torchperf_ci.series.segmenting import segment_all
from torchperf_ci.store.command import QueriedPoint, points_table
from torchperf_ci.suite.registry import catalogue
from torchperf_ci.upload.payload import Payload
from torchperf_ci.upload.report import Delivery, UploadReport, report_document
from torchperf_ci.verdicts.verdict_document import verdicts_document

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from torchperf_ci.document import Block

WIDTHS = (80, 100, 200)
INDENT = 8
"""Columns at most that a cell which is wider than the terminal stands in, with its head."""
LONGEST = Case(
    "scientific/pyhpc_turbulent_kinetic_energy", "training", "fp32", "inductor:reduce-overhead", 1_048_576
)


def run() -> Document:
    """The shortest and the longest name, a number of each kind, and a failure."""
    sample = {"inner": 1, "converged": True, "wall_per_step": 1.0, "cpu_per_step": 1.0}

    def process(seconds: float, half_width: float) -> ProcessOutcome:
        answers = {
            "sample": {**sample, "seconds": [seconds], "half_width": half_width},
            "peak": {"device": 79_123 << 20, "host": 1 << 20, "host_method": "VmHWM"},
        }
        return ProcessOutcome("pass", answers=told_by_worker(**answers), seconds=4.0)

    slow, fast = (process(seconds, 0.123) for seconds in (12.3456, 11.3456))
    short = replace(LONGEST, workload="language/gpt", backend="eager", batch_size=8)
    failed = ProcessOutcome("inaccurate", "12 of the compiled step are 3.21% off")
    results = [CaseResult(LONGEST, (slow, fast)), CaseResult(short, (process(21.43e-6, 0.004),))]
    setting = RunSetting(
        "nightly",
        Settings("python", "cpu"),
        {"type": "Xeon", "extra_info": {}},
        {"pytorch": Dependency(sha="abc")},
        "",
    )
    return run_document([*results, CaseResult(short, (failed,))], setting)


def listed() -> Document:
    """Every built-in workload."""
    rows = [
        (workload.name, ", ".join(workload.modes), workload.task)
        for workload in catalogue().workloads.values()
    ]
    return Document("", [Table(WORKLOAD_COLUMNS, rows)])


def history() -> Document:
    points = {
        series(model=name): row([*noisy(1234.5, 20), *noisy(1407.3, 20, seed=1)])
        for name in ("resnet", LONGEST.workload)
    }
    return history_document(
        segment_all(points, lambda name, _: rule_of_metric(name.metric, config.default_policy()))
    )


def planned() -> Document:
    runners = {
        "h100": {"labels": ["self-hosted", "linux.aws.h100.8"], "device": "cuda", "tune": True},
        "graviton": {"labels": ["linux.arm64.m7g.metal"], "device": "cpu"},
    }
    suites = {"core": {"workloads": ["core"], "runners": [*runners], "shards": 12}}
    path = Path("torchperf.yml")
    path.write_text(f'{{"version": 1, "runners": {runners}, "suites": {suites}}}'.replace("True", "true"))
    return jobs_document(jobs_of(config.load_config(path)))


def uploaded() -> Document:
    key = "v3/pytorch/pytorch/19876543210/1/54321098765/PyTorch nightly/vision-resnet18.json.gz"
    outcomes = (ConflictError("other content is kept there"), NotDeliveredError("503 Slow Down"))
    deliveries = tuple(Delivery(Payload(key, b"{}", 12), outcome) for outcome in outcomes)
    report = UploadReport("s3://ossci-benchmarks", Path("spool"), None, deliveries)
    return report_document(report, None)


def queried() -> Document:
    point = QueriedPoint(
        timestamp=made_night.LAST_NIGHT,
        commit=made_night.BAD,
        value=1234567.891,
        benchmark="PyTorch nightly",
        model=LONGEST.workload,
        mode="inference",
        dtype="bf16",
        backend=LONGEST.backend,
        device="cuda",
        arch=made_night.H100,
        metric="throughput(samples/s)",
    )
    return Document("", [points_table([point, replace(point, mode="training", value=None)])])


DOCUMENTS: dict[str, Callable[[], Document]] = {
    "run": run,
    "list": listed,
    "doctor": lambda: findings_document(diagnose(machine_state(Cpu()))),
    "check": lambda: verdicts_document([made_night.JUDGEMENT]),
    "compare": lambda: verdicts_document([replace(made_night.JUDGEMENT, command="compare")]),
    "bisect": lambda: bisection_document(made_night.LOCATION),
    "bisect that found nothing": lambda: bisection_document(made_night.INCONCLUSIVE),
    "history": history,
    "plan": planned,
    "upload": uploaded,
    "query": queried,
}


def tables(blocks: Sequence[Block]) -> Iterator[Table]:
    """All that a terminal shows, those in folds as well."""
    for block in shown_on("terminal", blocks):
        if isinstance(block, Table):
            yield block
        elif isinstance(block, Folded | Replaceable):
            yield from tables(block.blocks)


@pytest.mark.parametrize("verb", DOCUMENTS)
def test_no_name_number_or_verdict_is_cut(verb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    document = DOCUMENTS[verb]()
    for table in tables(document.blocks):
        cells = [[text_of(cell) for cell in words] for words in table.rows]
        for width in WIDTHS:
            out = io.StringIO()
            print_table(table.columns, cells, out, width=width)
            lines = out.getvalue().splitlines()
            shown = " ".join(lines).split()
            for texts in cells:
                for column, cell in zip(table.columns, texts, strict=True):
                    if column.kind == "prose":
                        assert set(cell.split()) <= set(shown)
                    else:
                        assert any(cell in line for line in lines), f"{cell!r} at {width} columns"
            longest = max(len(cell) for line in cells for cell in line)
            assert max(map(len, lines)) <= max(width, longest + INDENT)
    # Into a file, where nobody's terminal is narrow.
    piped = io.StringIO()
    print_document(document, piped, most=1000)
    for table in tables(document.blocks):
        for words in table.rows:
            for column, cell in zip(table.columns, words, strict=True):
                assert column.kind == "prose" or text_of(cell) in piped.getvalue()
    assert WIDTHS[-1] == WIDTH
