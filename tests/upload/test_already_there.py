"""An API and a store tell the same content from other content; the places' own tests check the same for them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from torchperf_ci.errors import ConflictError
from torchperf_ci.places.place import PlaceAccess
from torchperf_ci.upload.targets import open_target

if TYPE_CHECKING:
    from pathlib import Path

    from torchperf_ci.http_server import HttpServer

KEY = "v3/octo/perf/main/1f/H100/benchmark_results.json"


def line(number: int) -> bytes:
    record = {"metric": {"name": "latency(ms)", "benchmark_values": [number]}, "runners": []}
    return json.dumps(record).encode() + b"\n"


@pytest.fixture(params=["api", "store"])
def target(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "store":
        return f"chdb://{tmp_path / 'store'}"
    server: HttpServer = request.getfixturevalue("api")
    return server.url


def test_the_same_again_is_already_there_beside_a_conflict_and_what_is_new(
    target: str, tmp_path: Path
) -> None:
    uploader = open_target(target, PlaceAccess(), tmp_path / "spool")
    other = KEY.replace("H100", "MI300X")
    uploader.put_all({KEY: line(1), other: line(2)})
    new = KEY.replace("main", "side")
    outcomes = uploader.put_all({KEY: line(1), other: line(3), new: line(4)})
    assert isinstance(outcomes.pop(other), ConflictError)
    assert outcomes == {KEY: "already there", new: "written"}
