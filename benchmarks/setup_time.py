#!/usr/bin/env python3
"""Measure how long the actions' setup takes: at first, with kept wheels, repeated in the job, and with plain pip.

    python benchmarks/setup_time.py [ROUNDS]

Needs a package index, bash, and a Python that ``actions/setup/find_python.sh`` finds. Prints medians of wall-clock and
CPU seconds.
"""

from __future__ import annotations

import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

SETUP = Path(__file__).parents[1] / "actions/setup"
PIP = ("-I", "-m", "pip", "install", "--quiet", "--no-compile", "--disable-pip-version-check")


def timed(work: Callable[[], object]) -> tuple[float, float]:
    """Seconds by the clock, and of the CPU."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    work()
    seconds = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return seconds, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def install(temporary: Path, cache: Path, extra: str) -> None:
    """As a step of an action does it."""
    environ = {
        **os.environ,
        "PYTHON": sys.executable,
        "TORCHPERF_NEEDS": extra,
        "RUNNER_TEMP": str(temporary),
    }
    environ |= {"RUNNER_TOOL_CACHE": str(cache), "GITHUB_OUTPUT": os.devnull}
    subprocess.run(["bash", SETUP / "install.sh"], env=environ, check=True)


def install_by_pip(temporary: Path, extra: str) -> None:
    """The same packages, by pip alone, with what its own cache has."""
    subprocess.run([sys.executable, "-I", "-m", "venv", temporary / "venv"], check=True)
    lock = SETUP / f"requirements{extra and '-' + extra}.txt"
    how = ("--require-hashes", "--only-binary", ":all:", "--requirement", lock)
    subprocess.run([temporary / "venv/bin/python", *PIP, *how], check=True)


def rounds_of(extra: str, folder: Path) -> dict[str, tuple[float, float]]:
    """One round."""
    cache, first, second = folder / "cache", folder / "first", folder / "second"
    by_pip = folder / "pip"
    for path in (cache, first, second, by_pip):
        path.mkdir()
    return {
        "pip alone, its own cache warm": timed(lambda: install_by_pip(by_pip, extra)),
        "first on a runner": timed(lambda: install(first, cache, extra)),
        "on a runner that kept the wheels": timed(lambda: install(second, cache, extra)),
        "again in the same job": timed(lambda: install(second, cache, extra)),
    }


def main() -> None:
    """Measure, and print."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    for extra in ("", "store"):
        measured = []
        for _ in range(rounds):
            folder = Path(tempfile.mkdtemp(prefix="torchperf-setup-"))
            measured.append(rounds_of(extra, folder))
            shutil.rmtree(folder)
        for name in measured[0]:
            clock, cpu = (statistics.median(found[name][kind] for found in measured) for kind in (0, 1))
            print(f"{f'[{extra}]' if extra else '':8} {name:32} {clock:6.1f} s, {cpu:5.1f} s of CPU")


if __name__ == "__main__":
    main()
