"""Verdicts, culprits and commits are kept beside the results, each content once and verbatim."""

from __future__ import annotations

import gzip
import json
import subprocess
from typing import TYPE_CHECKING, Any

from clickhouse_http import clickhouse_server
from hostile import ATTACKS

from torchperf_ci import cli
from torchperf_ci.places import open_place
from torchperf_ci.series.points import Series
from torchperf_ci.store.ingest import BATCH_OBJECTS, IngestOutcome, ingest_place
from torchperf_ci.store.judged_files import add_judged_files, commit_subjects, judged_texts
from torchperf_ci.store.migrations import open_store

if TYPE_CHECKING:
    from pathlib import Path

    from torchperf_ci.store.client import Store

    from .conftest import Objects

SERIES = Series("octo/perf", "nightly", "resnet", "inference", "bf16", "eager", "cuda", "H100", "latency(ms)")


def verdicts(*named: str) -> str:
    found = [
        {
            "series": {**vars(SERIES), "model": name},
            "verdict": "regressed",
            "why": name,
            "effect": {"ratio": 1.25, "low": 1.2, "high": 1.3},
            "old": 10.0,
            "new": 12.5,
            "evidence": {"note": name},
        }
        for name in named
    ]
    return json.dumps({"version": 1, "command": "check", "verdicts": found})


def culprits(*subjects: str) -> str:
    found = [
        {
            "commit": f"{number:040x}",
            "set": [f"{number:040x}"],
            "posterior": 0.97,
            "effect": {"ratio": 1.1, "low": 1.05, "high": 1.2},
            "series": [str(SERIES)],
            "author": subject,
            "date": "2026-11-01",
            "subject": subject,
            "pull_request": None,
        }
        for number, subject in enumerate(subjects)
    ]
    return json.dumps({"version": 1, "status": "found", "good": "a", "bad": "b", "culprits": found})


def test_hostile_texts_come_back_as_they_were(store: Store, tmp_path: Path) -> None:
    files = {"judged/verdicts.json": verdicts(*ATTACKS), "judged/culprits.json": culprits(*ATTACKS)}
    for name, text in files.items():
        (tmp_path / "kept" / "judged").mkdir(parents=True, exist_ok=True)
        (tmp_path / "kept" / name).write_text(text)
    outcome = ingest_place(store, open_place(str(tmp_path / "kept")))
    assert outcome == IngestOutcome(("judged/culprits.json", "judged/verdicts.json"), judged=2)
    assert outcome.is_empty
    rows: list[Any] = [
        *store.rows(
            "SELECT model, why, series, ratio, old, detectable FROM torchperf_verdicts ORDER BY number"
        )
    ]
    ids = [Series(**{**vars(SERIES), "model": name}).id for name in ATTACKS]
    assert rows == [(name, name, series, 1.25, 10.0, None) for name, series in zip(ATTACKS, ids, strict=True)]
    assert store.rows("SELECT subject, suspects[1] = commit FROM torchperf_culprits ORDER BY number") == [
        (name, True) for name in ATTACKS
    ]
    assert store.rows("SELECT subject, author FROM torchperf_commits ORDER BY commit") == [
        (n, n) for n in ATTACKS
    ]
    assert judged_texts(store, "verdicts") == [files["judged/verdicts.json"]]


def test_commits_of_culprits_come_after_a_kill_before_them(store: Store, tmp_path: Path) -> None:
    (tmp_path / "c.json").write_text(culprits("One", "Two"))
    for _ in range(2):
        ingest_place(store, open_place(str(tmp_path)))
        assert store.rows("SELECT count() FROM torchperf_commits") == [(2,)]
    store.run("TRUNCATE TABLE torchperf_commits")
    ingest_place(store, open_place(str(tmp_path)))
    assert store.rows("SELECT count() FROM torchperf_commits") == [(2,)]


def test_a_commit_of_which_a_culprit_tells_nothing_is_told_of_by_whoever_knows(
    store: Store, tmp_path: Path
) -> None:
    """Of a night's wheels, a bisection without a clone knows only the commit."""
    unknown, found = json.loads(culprits("One")), culprits("One")
    unknown["culprits"][0].update(author=None, date=None, subject=None)
    for text in (json.dumps(unknown), found):
        (tmp_path / "c.json").write_text(text)
        ingest_place(store, open_place(str(tmp_path)))
    assert store.rows("SELECT subject FROM torchperf_commits") == [("One",)]


def test_a_server_takes_a_batch_of_verdicts_and_culprits_alone(tmp_path: Path) -> None:
    """Their digests together are longer than what a request may have outside of its body."""
    files = {
        f"{number}.json": (culprits if number % 2 else verdicts)(str(number))
        for number in range(BATCH_OBJECTS)
    }
    with clickhouse_server(tmp_path) as dsn, open_store(dsn) as store:
        assert add_judged_files(store, "bucket", files) == (len(files), [*files])


def test_each_content_is_there_once_by_whichever_ways_it_came(
    store: Store, tmp_path: Path, objects: Objects
) -> None:
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "v.json").write_text(verdicts("resnet"))
        (tmp_path / folder / "costs.json").write_text('{"version": 1, "costs": {}}')
    objects.put("judged/v.json.gz", gzip.compress(verdicts("resnet").encode()))
    for place in (*map(str, (tmp_path / "one", tmp_path / "two", tmp_path / "one")), objects.target):
        ingest_place(store, open_place(place))
    assert store.rows("SELECT kind, count() FROM torchperf_judged GROUP BY kind") == [("verdicts", 1)]
    assert store.rows("SELECT model, verdict FROM torchperf_verdicts") == [("resnet", "regressed")]


def test_files_come_in_the_order_in_which_they_were_ingested(store: Store) -> None:
    for second, key in enumerate(("b", "a", "c")):
        row = {"kind": "verdicts", "digest": key, "key": key, "text": key, "taken_at": 1_790_000_000 + second}
        store.insert("torchperf_judged", list(row), json.dumps(row).encode())
    assert judged_texts(store, "verdicts") == ["b", "a", "c"]


def test_where_nobody_may_make_tables_there_are_no_files_and_no_subjects(store: Store) -> None:
    for table in ("judged", "commits"):
        store.run(f"DROP TABLE torchperf_{table}")
    assert judged_texts(store, "verdicts") == []
    assert commit_subjects(store, ["1f"]) == {}


def test_commits_of_a_clone(dsn: str, tmp_path: Path) -> None:
    clone = tmp_path / "clone"
    git = ["git", "-C", str(clone), "-c", "user.name=Ann", "-c", "user.email=ann@octo.example"]
    subprocess.run(["git", "init", "-q", str(clone)], check=True)
    for subject in ("First", "<script> & more", "Zähler"):
        subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", f"{subject}\n\nbody"], check=True)
    for _ in range(2):
        assert cli.main(["ingest", "--git", str(clone), "--store", dsn]) == 0
    with open_store(dsn) as store:
        recent = "parseDateTimeBestEffort(date) > now() - 3600"
        found = store.rows(f"SELECT subject, author, {recent} FROM torchperf_commits ORDER BY subject")
    assert found == [("<script> & more", "Ann", 1), ("First", "Ann", 1), ("Zähler", "Ann", 1)]
    assert cli.main(["ingest", "--git", str(tmp_path), "--store", dsn]) == 2
