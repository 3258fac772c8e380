"""After an ingest was killed at any moment and run again, each record is in the store exactly once.

tests/store/test_answers.py kills that of a directory.
"""

from __future__ import annotations

import gzip
import json
import random
import time
from collections import Counter
from math import inf
from typing import TYPE_CHECKING

import pytest
from zygote import Zygote, running_zygote

from torchperf_ci.places import open_place
from torchperf_ci.store.client import Store
from torchperf_ci.store.ingest import ingest_place
from torchperf_ci.store.migrations import open_store

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from typing import Any

    from .conftest import Objects

ROUNDS, KILLS = 4, 4
OBJECTS, RECORDS = 30, 3


def survive(zygote: Zygote, dsn: str, source: str, put: Callable[[str, bytes], object]) -> None:
    """Bring new objects, kill what takes them in at moments of its whole life, and run it once more to its end."""
    expected = Counter[str]()
    killed, life, argv = 0, inf, ["ingest", source, "--store", dsn]
    for number in range(ROUNDS):
        expected += _fill(f"round{number}", put)
        for kill in range(KILLS if number else 0, -1, -1):  # the first round tells how long it takes
            started = time.monotonic()
            ended = zygote.run(argv, random.uniform(0, life) if kill else None)
            killed += ended is None
            life = life if ended is None else time.monotonic() - started
        assert ended == 0
    assert killed > (ROUNDS - 1) * KILLS / 4, "the kills came too late to mean anything"
    with open_store(dsn) as store:
        assert (
            Counter(str(row[0]) for row in store.rows("SELECT model.name FROM oss_ci_benchmark_v3"))
            == expected
        )


def _fill(name: str, put: Callable[[str, bytes], object]) -> Counter[str]:
    models = [[f"{name}-{number}-{record}" for record in range(RECORDS)] for number in range(OBJECTS)]
    for number, group in enumerate(models):
        records = [{"model": {"name": model}, "metric": {"name": "m"}, "runners": []} for model in group]
        put(f"{name}-{number}.json", gzip.compress("\n".join(map(json.dumps, records)).encode()))
    return Counter(model for group in models for model in group)


def test_of_a_bucket(dsn: str, objects: Objects) -> None:
    with running_zygote() as zygote:
        survive(zygote, dsn, objects.target, objects.put)


class _Killed(BaseException):
    """Nothing in the package catches it, as nothing catches SIGKILL."""


@pytest.mark.parametrize("when", ["before", "after"])
def test_whatever_statement_is_the_last(
    tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    """The moments of a kill, each in turn: before and after each statement that changes anything."""
    folder = tmp_path / "records"
    folder.mkdir()
    expected = Counter[str]()
    for last in range(100):
        expected += _fill(f"round{last}", lambda key, body: (folder / key).write_bytes(body))
        with monkeypatch.context() as patch:
            statements = _stop_at(patch, last, when)
            try:
                ingest_place(store, open_place(str(folder)))
            except _Killed:
                pass
            else:
                break  # it ends before
        outcome = ingest_place(store, open_place(str(folder)))
        assert (outcome.conflicts, outcome.refused) == ((), ())
        assert _kept(store) == expected, statements
    assert last > 4, "what is killed here has no statements"
    assert _kept(store) == expected


def _stop_at(patch: pytest.MonkeyPatch, last: int, when: str) -> list[str]:
    """Raise at a statement; the statements until then."""
    seen: list[str] = []

    def stopping(method: Callable[..., None]) -> Callable[..., None]:
        def run(store: Store, text: str, *rest: Any) -> None:
            seen.append(text)
            if len(seen) > last and when == "before":
                raise _Killed
            method(store, text, *rest)
            if len(seen) > last:
                raise _Killed

        return run

    for name in ("run", "insert"):
        patch.setattr(Store, name, stopping(getattr(Store, name)))
    return seen


def _kept(store: Store) -> Counter[str]:
    return Counter(str(row[0]) for row in store.rows("SELECT model.name FROM oss_ci_benchmark_v3"))
