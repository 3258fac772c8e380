"""The tests' own working directory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def _outside_of_a_job(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Neither the job that runs the tests nor the checkout they are in tells anything."""
    for name in ("GITHUB_ACTIONS", "GITHUB_SHA", "GITHUB_REPOSITORY", "GITHUB_EVENT_PATH", "GITHUB_BASE_REF"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
