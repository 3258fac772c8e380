"""The contract that all kinds of places share."""

from __future__ import annotations

import gzip
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest
from contents import contents

from torchperf_ci.errors import ConflictError, PlaceUnreadableError, UnsafeKeyError
from torchperf_ci.places import open_place

if TYPE_CHECKING:
    from torchperf_ci.places.place import RecordPlace

KEY = "v3/octo/perf/1/2/results.json"
HOSTILE = [
    "",
    "/",
    "/etc/passwd",
    "../out",
    "v3/../../out",
    "v3/./x",
    "v3//x",
    "v3/",
    "v3/a b",
    "v3/a\nb",
    "v3/a\0b",
    "v3/a\\b",
    "v3/é",
    "v3/*",
    "v3/{a,b}",
    "v3/$(x)",
    "v3/.git/hooks/x",
    "v3/.GIT/config",
    "v3/" + "a" * 300,
    "a/" * 600 + "a",
]


def test_what_is_put_comes_back_to_the_byte(place: RecordPlace) -> None:
    bodies = {"v3/b.json": b"", "v3/a/x.json": gzip.compress(b"{}"), "v3/a.json": bytes(range(256))}
    assert place.put_all(bodies) == dict.fromkeys(bodies, "written")
    assert contents(place) == bodies


def test_the_same_content_is_already_there(place: RecordPlace) -> None:
    assert place.put(KEY, b"[]") == "written"
    assert place.put(KEY, b"[]") == "already there"
    assert list(contents(place)) == [KEY]


def test_content_is_the_same_however_it_is_compressed(place: RecordPlace) -> None:
    text = b'{"metric": {}}' * 100
    place.put(KEY, gzip.compress(text, 9, mtime=0))
    assert place.put(KEY, gzip.compress(text, 1, mtime=5)) == "already there"
    with pytest.raises(ConflictError):
        place.put(KEY, gzip.compress(text + b" ", 9, mtime=0))


def test_other_content_is_a_conflict_that_names_the_key_and_changes_nothing(place: RecordPlace) -> None:
    place.put(KEY, b"[1]")
    with pytest.raises(ConflictError, match=KEY):
        place.put(KEY, b"[2]")
    assert contents(place) == {KEY: b"[1]"}


def test_one_conflict_does_not_stop_the_others(place: RecordPlace) -> None:
    place.put("b", b"old")
    outcomes = place.put_all({"a": b"1", "b": b"new", "c": b"3"})
    assert isinstance(outcomes["b"], ConflictError)
    assert (outcomes["a"], outcomes["c"]) == ("written", "written")
    assert contents(place) == {"a": b"1", "b": b"old", "c": b"3"}


@pytest.mark.parametrize("key", HOSTILE)
def test_a_hostile_key_is_refused_and_nothing_is_written(tmp_path, key: str) -> None:
    place = open_place(str(tmp_path / "kept"))
    for put in (lambda: place.put(key, b"x"), lambda: place.put_all({"fine": b"x", key: b"x"})):
        with pytest.raises(UnsafeKeyError):
            put()
    assert not (tmp_path / "kept").exists()


def test_every_place_checks_keys(place: RecordPlace) -> None:
    for put in (lambda: place.put("../out", b"x"), lambda: place.put_all({"fine": b"x", "../out": b"x"})):
        with pytest.raises(UnsafeKeyError, match=r"\.\./out"):
            put()


@pytest.mark.parametrize("target", ["directory", "s3"], indirect=True)
def test_a_key_that_is_not_there_is_an_error(place: RecordPlace) -> None:
    place.put(KEY, b"x")
    with pytest.raises(PlaceUnreadableError, match="v3/none"):
        place.get("v3/none")


def test_of_twenty_writers_of_one_key_exactly_one_wins(place: RecordPlace) -> None:
    barrier = threading.Barrier(20)

    def write(number: int) -> object:
        barrier.wait(timeout=60)
        return place.put_all({KEY: b"[%d]" % number})[KEY]

    with ThreadPoolExecutor(20) as pool:
        outcomes = list(pool.map(write, range(20)))
    assert Counter(type(outcome) for outcome in outcomes) == {str: 1, ConflictError: 19}
    assert contents(place) == {KEY: b"[%d]" % outcomes.index("written")}


@pytest.mark.parametrize("target", ["directory", "branch"], indirect=True)
def test_a_file_is_no_folder(place: RecordPlace) -> None:
    place.put_all({"v3/file": b"x", "v3/folder/file": b"x"})
    for key in ("v3/file/below", "v3/folder"):
        with pytest.raises(ConflictError, match=key):
            place.put(key, b"x")
    assert sorted(contents(place)) == ["v3/file", "v3/folder/file"]
