"""Hides the environment of a surrounding job from the receiver."""

from __future__ import annotations

import os

import pytest


@pytest.fixture(autouse=True)
def _outside_of_a_job(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in os.environ:
        if name.startswith(("GITHUB_", "RUNNER_", "TORCHPERF_", "UPLOADER_")):
            monkeypatch.delenv(name)
