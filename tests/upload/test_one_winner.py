"""Of concurrent uploads of different content under one key, one wins; the places' own tests check the same for them."""

from __future__ import annotations

import json
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from torchperf_ci.errors import ConflictError
from torchperf_ci.places import open_place
from torchperf_ci.places.place import PlaceAccess
from torchperf_ci.store.client import connect
from torchperf_ci.upload.targets import open_target

if TYPE_CHECKING:
    from pathlib import Path

    from torchperf_ci.http_server import HttpServer

KEY = "v3/octo/perf/main/1f/H100/benchmark_results.json"
WRITERS = 20


def line(number: int) -> bytes:
    record = {"metric": {"name": "latency(ms)", "benchmark_values": [number]}, "runners": []}
    return json.dumps(record).encode() + b"\n"


@pytest.fixture(params=["api", "store"])
def target(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "store":
        return f"chdb://{tmp_path / 'store'}"
    server: HttpServer = request.getfixturevalue("api")
    return server.url


def kept(target: str, tmp_path: Path) -> list[float]:
    """The values at the target."""
    if target.startswith("chdb://"):
        with connect(target) as store:
            (values,) = store.rows("SELECT metric.benchmark_values FROM benchmark.oss_ci_benchmark_v3")[0]
            return list(values)
    from gzip import decompress

    return list(
        json.loads(decompress(open_place(str(tmp_path / "kept")).get(KEY)))["metric"]["benchmark_values"]
    )


def test_twenty_writers_of_one_key(target: str, tmp_path: Path) -> None:
    barrier = threading.Barrier(WRITERS)

    def write(number: int) -> object:
        uploader = open_target(target, PlaceAccess(deadline=120), tmp_path / f"spool{number}")
        barrier.wait(timeout=60)
        return uploader.put_all({KEY: line(number)})[KEY]

    with ThreadPoolExecutor(WRITERS) as pool:
        outcomes = list(pool.map(write, range(WRITERS)))
    assert Counter(type(outcome) for outcome in outcomes) == {str: 1, ConflictError: WRITERS - 1}
    assert kept(target, tmp_path) == [outcomes.index("written")]
    conflicts = [str(outcome) for outcome in outcomes if isinstance(outcome, ConflictError)]
    assert all(KEY in told and "not overwritten" in told for told in conflicts)


def test_the_same_again_is_already_there_beside_a_conflict(target: str, tmp_path: Path) -> None:
    uploader = open_target(target, PlaceAccess(), tmp_path / "spool")
    other = KEY.replace("H100", "MI300X")
    uploader.put_all({KEY: line(1), other: line(2)})
    outcomes = uploader.put_all({KEY: line(1), other: line(3)})
    assert outcomes[KEY] == "already there"
    assert isinstance(outcomes[other], ConflictError)
    assert outcomes.keys() == {KEY, other}
