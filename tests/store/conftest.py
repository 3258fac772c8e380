"""An embedded store for each test, and objects in a real bucket."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING
from uuid import uuid4

import boto3
import pytest
from seaweedfs import BUCKET

from torchperf_ci.store.migrations import open_store

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from seaweedfs import S3Server

    from torchperf_ci.store.client import Store


@pytest.fixture
def dsn(tmp_path: Path) -> str:
    """The address of an embedded store that is not there yet."""
    return f"chdb://{tmp_path}/store"


@pytest.fixture(scope="session")
def empty_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a store without a row. To make its tables takes several times as long as to copy them."""
    folder = tmp_path_factory.mktemp("empty") / "store"
    open_store(f"chdb://{folder}").close()
    return folder


@pytest.fixture
def store(dsn: str, empty_store: Path) -> Iterator[Store]:
    """An empty store."""
    shutil.copytree(empty_store, dsn.removeprefix("chdb://"), symlinks=True)
    with open_store(dsn) as opened:
        yield opened


class Objects:
    """What lies below a prefix of its own, put there without any condition, as others do."""

    def __init__(self) -> None:
        self.prefix = str(uuid4())
        self.target = f"s3://{BUCKET}/{self.prefix}"
        self._client = boto3.client("s3")

    def put(self, key: str, body: bytes) -> None:
        """Keep an object, whatever was there before."""
        self._client.put_object(Bucket=BUCKET, Key=f"{self.prefix}/{key}", Body=body)

    def delete(self, key: str) -> None:
        self._client.delete_object(Bucket=BUCKET, Key=f"{self.prefix}/{key}")

    def close(self) -> None:
        self._client.close()


@pytest.fixture
def objects(aws: S3Server) -> Iterator[Objects]:
    """An empty prefix of a real bucket, which boto3 and the engine reach as they reach production's."""
    made = Objects()
    yield made
    made.close()
