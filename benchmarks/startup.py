"""Measure where the startup time of the commands goes, before anything is measured.

python benchmarks/startup.py [CHECKOUT]

With another checkout of torchperf, such as an earlier commit, the commands of both are started in turn.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from report import print_table

from torchperf_ci.bench.case import Case, Settings
from torchperf_ci.bench.process import WorkerConversation, build, open_worker
from torchperf_ci.bench.worker.protocol import CountedFlops, FirstStep, Leak, Peak, Samples, WarmUp

if TYPE_CHECKING:
    from collections.abc import Callable

SUITE = """
import torch
from torchperf_ci.suite import Task, workload

@workload("empty/add", "one addition", modes=("inference",))
def add(batch_size):
    return Task(lambda x: x + 1, (torch.ones(1),))
"""
REPEATS = 9


COMMANDS = {
    "--help": ("--help",),
    "run --help": ("run", "--help"),
    "plan": ("plan",),
    "run": ("run", "--python", "/nothing"),
    "upload": ("upload", "nothing", "--to", "kept"),
    "query": ("query",),
    "check": ("check", "nothing"),
    "history": ("history", "--records", "nothing"),
    "compare": ("compare",),
    "bisect": ("bisect",),
    "report": ("report",),
    "watch": ("watch",),
}
"""Each imports all that it works with, and ends where it sees that there is nothing to do."""


def cpu_seconds(*command: str, checkout: Path | None = None, folder: str | None = None) -> float:
    """User and system seconds of a command, with the package of a checkout."""
    environ = {**os.environ, "PYTHONPATH": str(checkout)} if checkout else None
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=not checkout, capture_output=True, timeout=120, env=environ, cwd=folder)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime - before.ru_utime) + (after.ru_stime - before.ru_stime)


def of(repeats: int, measured: Callable[[], float]) -> str:
    """Median of repeated seconds."""
    return f"{median(measured() for _ in range(repeats)):.3f} s"


def worker_phases(folder: Path) -> dict[str, float]:
    """Wall seconds of each request to a worker that has nothing to do."""
    suite = folder / "suite.py"
    suite.write_text(SUITE)
    settings = Settings(sys.executable, "cpu", (str(suite),), target_ci=0.05, budget=0.2)
    case = Case("empty/add", "inference", "fp32", "eager", 1)
    seconds = {}
    start = time.perf_counter()
    with open_worker(case, settings, folder) as worker:
        conversation = WorkerConversation(worker, settings.timeout)
        budget = {"budget": settings.budget}
        for verb, ask in {
            "build": partial(build, conversation, case, settings),
            "first_step": partial(conversation.ask, "first_step", FirstStep),
            "warm_up": partial(conversation.ask, "warm_up", WarmUp, **budget),
            "sample": partial(
                conversation.ask, "sample", Samples, inner=1000, target=settings.target_ci, **budget
            ),
            "peak": partial(conversation.ask, "peak", Peak),
            "leak": partial(conversation.ask, "leak", Leak, **budget),
            "flops": partial(conversation.ask, "flops", CountedFlops),
        }.items():
            asked = time.perf_counter()
            ask()
            seconds[verb] = time.perf_counter() - asked
        asked = time.perf_counter()
    seconds["end"] = time.perf_counter() - asked
    return {**seconds, "whole process": time.perf_counter() - start}


def starts(checkouts: dict[str, Path]) -> list[list[str]]:
    """The least of each command in each checkout, which take turns; the first start, which compiles, is left out."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for name, argv in COMMANDS.items():
            call = (sys.executable, "-m", "torchperf_ci", *argv)
            turns = [
                [cpu_seconds(*call, checkout=checkout, folder=folder) for checkout in checkouts.values()]
                for _ in range(REPEATS + 1)
            ]
            rows.append([f"`{name}`", *(f"{min(taken):.3f} s" for taken in zip(*turns[1:], strict=True))])
    return rows


def main() -> None:
    checkouts = {"CPU": Path(__file__).parents[1]}
    if len(sys.argv) > 1:
        checkouts = {"before": Path(sys.argv[1]).absolute(), "now": checkouts["CPU"]}
    print_table("CPU seconds until a command begins", ("command", *checkouts), starts(checkouts))
    python = sys.executable
    commands = {
        "`python -c pass`": (python, "-c", "pass"),
        "`python -c 'import torch'`": (python, "-c", "import torch"),
    }
    rows = [[name, of(REPEATS, lambda c=command: cpu_seconds(*c))] for name, command in commands.items()]
    print_table("CPU seconds of a command", ("command", "CPU"), rows)
    with tempfile.TemporaryDirectory() as folder:
        runs = [worker_phases(Path(folder)) for _ in range(5)]
    phases = [[name, f"{median(run[name] for run in runs):.3f} s"] for name in runs[0]]
    print_table("Wall seconds of one worker with a trivial workload", ("request", "wall"), phases)


if __name__ == "__main__":
    main()
