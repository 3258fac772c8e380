from __future__ import annotations

import functools
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from measuring import Called

from torchperf_ci.bench import selection
from torchperf_ci.bench.case import Case, Settings
from torchperf_ci.cli import main

if TYPE_CHECKING:
    from collections.abc import Callable

    from torchperf_ci.bench.worker.protocol import EnvironmentUnderTest

FAULTY = Path(__file__).parent / "faulty_suite.py"


@pytest.fixture
def faulty() -> Callable[[str], Case]:
    """A case of the suite file whose workloads go wrong."""
    return lambda name: Case(f"faulty/{name}", "inference", "fp32", "eager", 2)


@pytest.fixture(scope="session")
def quick(torch_python: str) -> Settings:
    """Settings under which a healthy worker takes about as long as importing torch."""
    return Settings(torch_python, "cpu", (str(FAULTY),), processes=2, target_ci=0.5, budget=0.1, timeout=60)


@pytest.fixture(scope="session")
def described() -> EnvironmentUnderTest:
    """What a worker says of the torch beside this toolkit, with the suite of faults."""
    return selection.describe_environment(Settings(sys.executable, "auto", (str(FAULTY),)))


@pytest.fixture(scope="session")
def anchor(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A Python with the same torch, whose suite of faults has no ``faulty/newer``."""
    python = tmp_path_factory.mktemp("anchor") / "anchor-python"
    python.write_text(f'#!/bin/sh\nANCHOR=1 exec {sys.executable} "$@"\n')
    python.chmod(0o755)
    return str(python)


@pytest.fixture(scope="session")
def outside_of_jobs(described: EnvironmentUnderTest) -> Callable[[pytest.MonkeyPatch], None]:
    """Prepare calls; another Python, suite or device than what is described is asked for itself, once."""

    ask = functools.cache(selection.describe_environment)

    def prepare(monkeypatch: pytest.MonkeyPatch) -> None:
        def describe(settings: Settings, *flag: str) -> EnvironmentUnderTest:
            known = settings.device in ("auto", described.environment.device)
            here = settings.python == sys.executable and {*settings.files} <= {str(FAULTY)}
            return described if here and known else ask(settings, *flag)

        monkeypatch.setattr(selection, "describe_environment", describe)
        for name in [name for name in os.environ if name.startswith(("GITHUB_", "TORCHPERF_"))]:
            monkeypatch.delenv(name)

    return prepare


@pytest.fixture
def call(
    outside_of_jobs: Callable[[pytest.MonkeyPatch], None],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Callable[..., Called]:
    """Call the command."""
    outside_of_jobs(monkeypatch)

    def called(*argv: str | Path, cwd: Path) -> Called:
        monkeypatch.chdir(cwd)
        return Called(main([*map(str, argv)]), *capsys.readouterr())

    return called
