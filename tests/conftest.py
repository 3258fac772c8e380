"""What several rooms test against: the environment under test, the database engine, servers."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from database import Table
from oidc_issuer import Issuer, running_issuer
from seaweedfs import S3Server, running_seaweedfs

if TYPE_CHECKING:
    from collections.abc import Iterator


PROJECT = Path(__file__).parents[1]


@pytest.fixture(scope="session")
def torch_environment() -> Path:
    """The environment under test, which holds torch and nothing of ours."""
    python = Path(os.environ.get("TORCHPERF_TEST_TORCH_PYTHON", PROJECT / ".venv/torch/bin/python"))
    assert python.exists(), f"no Python with torch at {python}: `make .venv/torch` makes one"
    return python.absolute().parent.parent


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Table]:
    """The real engine with the real table; one at a time in a process, so it ends with the module."""
    table = Table(tmp_path_factory.mktemp("engine"))
    yield table
    table.close()


@pytest.fixture(scope="session")
def issuer() -> Iterator[Issuer]:
    """What issues OIDC tokens to jobs; ``s3_server`` trusts it."""
    with running_issuer() as running:
        yield running


@pytest.fixture(scope="session")
def s3_server(tmp_path_factory: pytest.TempPathFactory, issuer: Issuer) -> Iterator[S3Server]:
    """A real S3 and STS with one bucket, ``records``; give each test a prefix of its own."""
    with running_seaweedfs(tmp_path_factory.mktemp("seaweedfs"), issuer.url) as running:
        yield running
