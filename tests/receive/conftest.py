"""A receiver that runs, and no environment of a surrounding job."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from upload_requests import serving_in

from torchperf_ci.places import open_place

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def _outside_of_a_job(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in os.environ:
        if name.startswith(("GITHUB_", "RUNNER_", "TORCHPERF_", "UPLOADER_")):
            monkeypatch.delenv(name)


@pytest.fixture(scope="module")
def address(tmp_path_factory) -> Iterator[tuple[str, int]]:
    """Where a server listens that keeps in a directory."""
    with serving_in(open_place(str(tmp_path_factory.mktemp("kept")))) as there:
        yield there
