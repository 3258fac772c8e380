"""A data branch is ingested exactly once, whether its files are packed or not, and only new ones are read."""

from __future__ import annotations

import gzip
import json
import os
from typing import TYPE_CHECKING

import pytest

from torchperf_ci.places.branch import BranchPlace
from torchperf_ci.places.place import PlaceAccess
from torchperf_ci.store.ingest import ingest_place

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from torchperf_ci.store.client import Store

OLD, NEVER_OLD = 1_773_000_000, 4_000_000_000


def body(timestamp: int, *models: str) -> bytes:
    metric = {"name": "latency(ms)", "benchmark_values": [1.5]}
    records = [{"timestamp": timestamp, "model": {"name": name}, "metric": metric} for name in models]
    return gzip.compress("\n".join(map(json.dumps, records)).encode(), mtime=0)


BRANCH = {
    "v3/octo/perf/1/2/a.json": body(OLD, "a", "b"),
    "v3/octo/perf/2/2/a.json": body(NEVER_OLD, "c"),
    "judged/octo/perf/1/verdicts-v.json": b'{"version": 1, "verdicts": []}',
    "notes/package.json": b'{"name": "of somebody"}',
}
RECORDS = [("v3/octo/perf/1/2/a.json", 2), ("v3/octo/perf/2/2/a.json", 1)]


@pytest.fixture
def place(remote: Path) -> BranchPlace:
    made = BranchPlace.at(f"branch:perf@{remote}", PlaceAccess(deadline=120))
    made.put_all(BRANCH)
    return made


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The keys that were read, in the end."""
    keys: list[str] = []
    reading = BranchPlace.read

    def note(place: BranchPlace, wanted: Sequence[str]) -> object:
        keys.extend(wanted)
        return reading(place, wanted)

    monkeypatch.setattr(BranchPlace, "read", note)
    return keys


def kept(store: Store) -> list[tuple[str, int]]:
    """Keys, and how many records each has."""
    rows = store.rows("SELECT _meta.key AS key, count() FROM oss_ci_benchmark_v3 GROUP BY key ORDER BY key")
    return [(str(key), int(count)) for key, count in rows]


def test_only_what_is_new_is_read(store: Store, place: BranchPlace, read: list[str]) -> None:
    first = ingest_place(store, place)
    assert (first.objects, first.records, first.judged, len(first.refused)) == (2, 3, 1, 1)
    assert sorted(read) == sorted(BRANCH)
    read.clear()
    assert ingest_place(store, place).known == len(BRANCH)
    assert not read
    place.put("v3/octo/perf/3/2/a.json", body(NEVER_OLD, "d"))
    assert ingest_place(store, place).records == 1
    assert read == ["v3/octo/perf/3/2/a.json"]


def test_what_was_taken_in_before_it_was_packed_is_not_taken_again(store, place, read) -> None:
    ingest_place(store, place)
    place.put("v3/octo/perf/1/3/late.json", body(OLD, "late"))
    place.pack("2026-05")
    read.clear()
    outcome = ingest_place(store, place)
    assert (outcome.objects, outcome.records, outcome.conflicts) == (1, 1, ())
    assert kept(store) == sorted([*RECORDS, ("v3/octo/perf/1/3/late.json", 1)])
    assert read == ["packed/2026-03.tar.gz"]
    read.clear()
    assert not ingest_place(store, place).objects
    assert not read


def test_a_packed_branch_gives_the_same_rows(store: Store, place: BranchPlace) -> None:
    place.pack("2026-05")
    assert ingest_place(store, place).records == 3
    assert kept(store) == RECORDS


def test_a_damaged_pack_is_refused_by_name_and_the_rest_is_kept(store: Store, place: BranchPlace) -> None:
    place.put("packed/2025-01.tar.gz", b"not a pack")
    outcome = ingest_place(store, place)
    assert "packed/2025-01.tar.gz" in {item.file.removeprefix(f"{place.name}/") for item in outcome.refused}
    assert kept(store) == RECORDS


def test_other_content_than_the_pack_s_is_told_each_time(store, place, remote, git, tmp_path) -> None:
    place.pack("2026-05")
    ingest_place(store, place)
    git(tmp_path, "clone", "--quiet", "--branch=perf", str(remote), "clone")
    folder = tmp_path / "clone/v3/octo/perf/1/2"
    folder.mkdir(parents=True)
    (folder / "a.json").write_bytes(body(OLD, "another"))
    git(tmp_path / "clone", "add", ".")
    git(tmp_path / "clone", "commit", "--quiet", "-m", "by hand")
    git(tmp_path / "clone", "push", "--quiet")
    for _ in range(2):
        assert len(ingest_place(store, place).conflicts) == 1
    assert kept(store) == RECORDS


def test_a_name_that_is_not_utf8_is_escaped(store, place, remote, git, tmp_path) -> None:
    git(tmp_path, "clone", "--quiet", "--branch=perf", str(remote), "clone")
    (tmp_path / "clone" / os.fsdecode(b"\xe9t\xe9.json")).write_bytes(body(OLD, "by hand"))
    git(tmp_path / "clone", "add", ".")
    git(tmp_path / "clone", "commit", "--quiet", "-m", "by hand")
    git(tmp_path / "clone", "push", "--quiet")
    ingest_place(store, place)
    place.pack("2026-05")
    assert ingest_place(store, place).objects == 0
    assert kept(store) == sorted([*RECORDS, ("\\xe9t\\xe9.json", 1)])
