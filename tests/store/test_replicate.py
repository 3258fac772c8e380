"""The SQL with which a server takes objects out of a bucket by itself.

The embedded engine has everything of it but Keeper, without which it makes no queue. So the queue's table stands on
the plain S3 engine here, which takes the same arguments and reads in the same way, and the view's question is asked by
hand.
"""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from seaweedfs import ACCESS_KEY, BUCKET, SECRET_KEY

import torchperf_ci
from torchperf_ci.places import open_place
from torchperf_ci.store.client import RefusedStatementError
from torchperf_ci.store.ingest import ingest_place

if TYPE_CHECKING:
    from seaweedfs import S3Server

    from torchperf_ci.store.client import Store

    from .conftest import Objects

TEXT = (Path(torchperf_ci.__file__).parent / "store" / "replicate.sql").read_text()
RECORDS = [
    {
        "timestamp": 1_790_000_000,
        "workflow_id": 2**63 + 1,
        "runners": [{"name": "cuda", "type": "H100"}],
        "model": {"name": "a", "origins": ["timm"]},
        "metric": {"name": "m", "benchmark_values": [1.5]},
        "unheard_of": 1,
    },
    {"metric": {"name": "m"}, "model": {"name": "b"}},
]


def statements(text: str) -> list[str]:
    return [part.strip() for part in re.split(r";\s*$", text, flags=re.MULTILINE) if part.strip()]


def here(objects: Objects, server: S3Server) -> str:
    """The file as somebody who keeps results in this bucket would have it."""
    address = f"{server.endpoint}/{BUCKET}/{objects.prefix}"
    return TEXT.replace("https://BUCKET.s3.amazonaws.com", address).replace("BUCKET", BUCKET)


def test_only_keeper_is_missing_for_the_queue(store: Store, objects: Objects, aws: S3Server) -> None:
    queue, _ = statements(here(objects, aws))
    with pytest.raises(RefusedStatementError, match="no Zookeeper configuration"):
        store.run(queue)
    with pytest.raises(RefusedStatementError, match="Unknown setting"):
        store.run(queue.replace("loading_retries", "loading_attempts"))


def test_what_it_takes_is_what_ingest_takes(store: Store, objects: Objects, aws: S3Server) -> None:
    objects.put("v3/octo/perf/1/2/a.json", gzip.compress("\n".join(map(json.dumps, RECORDS)).encode()))
    queue, view = statements(here(objects, aws))
    store.run(_on_plain_s3(queue))
    store.run(view)  # nothing comes by itself, but the engine checks its columns against the results'
    columns = ", ".join(str(row[0]) for row in store.rows("DESCRIBE TABLE oss_ci_benchmark_v3"))
    _, _, question = view.partition(" AS\n")
    store.run(f"INSERT INTO oss_ci_benchmark_v3 ({columns}) {question}")

    assert store.rows(
        "SELECT model.name, _meta.bucket, _meta.key, workflow_id FROM oss_ci_benchmark_v3 ORDER BY 1"
    ) == [
        ("a", BUCKET, f"{objects.prefix}/v3/octo/perf/1/2/a.json", 2**63 + 1),
        ("b", BUCKET, f"{objects.prefix}/v3/octo/perf/1/2/a.json", 0),
    ]
    outcome = ingest_place(store, open_place(objects.target))
    assert (outcome.objects, outcome.known, outcome.conflicts) == (0, 1, ())


def test_a_queue_gives_the_key_without_the_bucket(store: Store) -> None:
    """Unlike the plain engine, and unlike what stands in the results."""
    _, view = statements(TEXT.replace("BUCKET", BUCKET))
    meta = re.search(r"\('records', if\(.*?\)\)\s*::Tuple\(.*?\) AS _meta", view, re.DOTALL)
    assert meta
    for path in ("v3/a.json", f"{BUCKET}/v3/a.json"):
        assert store.rows(f"SELECT _meta.key FROM (SELECT {meta[0]} FROM (SELECT '{path}' AS _path))") == [
            ("v3/a.json",)
        ]


def _on_plain_s3(queue: str) -> str:
    plain = queue.replace("S3Queue(", "S3(").replace(
        "'JSONEachRow'", f"'{ACCESS_KEY}', '{SECRET_KEY}', 'JSONEachRow'"
    )
    return re.sub(r"SETTINGS.*?(?=EMPTY AS)", "", plain, flags=re.DOTALL)
