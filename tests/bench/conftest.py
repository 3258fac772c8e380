from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from torchperf_ci.bench.case import Case, Settings

if TYPE_CHECKING:
    from collections.abc import Callable

FAULTY = Path(__file__).parent / "faulty_suite.py"


@pytest.fixture
def faulty() -> Callable[[str], Case]:
    """A case of the suite file whose workloads go wrong."""
    return lambda name: Case(f"faulty/{name}", "inference", "fp32", "eager", 2)


@pytest.fixture
def quick(torch_python: str) -> Settings:
    """Settings under which a healthy worker takes about as long as importing torch."""
    return Settings(torch_python, "cpu", (str(FAULTY),), processes=2, target_ci=0.5, budget=0.1, timeout=60)
