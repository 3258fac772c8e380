from __future__ import annotations

import io
import json
import os
import zipfile
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from torchperf_ci.errors import OutputDirectoryError, RecordsError
from torchperf_ci.records import files
from torchperf_ci.records.reading import RefusedElement
from torchperf_ci.upload import spool as module
from torchperf_ci.upload.payload import Payload
from torchperf_ci.upload.spool import Spool

if TYPE_CHECKING:
    from pathlib import Path

ONE, TWO = Payload("v3/a.json", b"\x1f\x8b\x00one", 3), Payload("v3/b.json", "µ".encode(), 1)


@pytest.fixture
def spool(tmp_path: Path) -> Spool:
    return Spool(tmp_path / "spool", "s3://bucket")


@pytest.mark.parametrize("now", [0, 2**33])
def test_what_is_kept_comes_back_whatever_the_clock_says(
    spool: Spool, monkeypatch: pytest.MonkeyPatch, now: int
) -> None:
    """Boards without a clock of their own begin in 1970, which is before a zip's first year."""
    monkeypatch.setattr("time.time", lambda: now)
    batch = spool.keep("source", [ONE, TWO])
    assert spool.pending() == [batch]
    assert batch.bodies == {"v3/a.json": ONE.body, "v3/b.json": TWO.body}


def test_a_part_that_is_delivered_is_forgotten(spool: Spool) -> None:
    spool.settle(spool.keep("source", [ONE, TWO]), ["v3/a.json"])
    assert [batch.payloads for batch in spool.pending()] == [(TWO,)]
    assert spool.knows("source")


def test_all_of_it_delivered_leaves_a_receipt(spool: Spool) -> None:
    spool.settle(spool.keep("source", [ONE]), ["v3/a.json"])
    assert spool.pending() == []
    assert spool.knows("source")
    assert not spool.knows("other")
    assert not Spool(spool.root, "s3://other").knows("source")


def test_nothing_delivered_changes_nothing(spool: Spool) -> None:
    batch = spool.keep("source", [ONE, TWO])
    written = batch.path.stat().st_mtime_ns
    spool.settle(batch, [])
    assert (spool.pending(), batch.path.stat().st_mtime_ns) == ([batch], written)


def test_the_same_is_kept_once(spool: Spool) -> None:
    spool.keep("source", [ONE])
    spool.keep("source", [ONE])
    assert len(spool.pending()) == 1


def test_other_targets_have_batches_of_their_own(spool: Spool) -> None:
    spool.keep("source", [ONE])
    Spool(spool.root, "s3://other").keep("source", [TWO])
    assert [batch.payloads for batch in spool.pending()] == [(ONE,)]


def test_a_kill_while_a_batch_is_written_leaves_none(spool: Spool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files.os, "fsync", lambda _: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        spool.keep("source", [ONE])
    assert spool.pending() == []
    assert list(spool.root.iterdir()) == []


def damage(spool: Spool) -> str:
    assert spool.pending() == []
    return spool.left_out()


def test_a_damaged_batch_is_named(spool: Spool) -> None:
    batch = spool.keep("source", [ONE, TWO])
    batch.path.write_bytes(batch.path.read_bytes().replace(b"one", b"two"))
    assert f"{batch.path}: is not a batch, or damaged" in damage(spool)


def test_a_batch_whose_key_leads_out_is_named_and_not_sent(spool: Spool) -> None:
    spool.keep("source", [Payload("../../v3/a.json", b"one", 1)])
    assert "'..' cannot be a part of it" in damage(spool)


def test_a_batch_with_wrong_facts_is_named(spool: Spool) -> None:
    spool.root.mkdir()
    with zipfile.ZipFile(spool.root / "x.zip", "w") as packed:
        packed.writestr("about.json", json.dumps({"target": spool.target, "source": "1f", "records": []}))
    assert "x.zip: is not a batch" in damage(spool)


ABOUT = json.dumps({"target": "s3://bucket", "source": "1f", "records": {}}).encode()


def packed(about: bytes = ABOUT, method: int = zipfile.ZIP_STORED) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as archive:
        archive.writestr("about.json", about)
    return file.getvalue()


def patched(archive: bytes, place: int, value: int) -> bytes:
    """An archive with another byte at a place of its member's header, which it holds twice."""
    content = bytearray(archive)
    content[place] = content[content.index(b"PK\x01\x02") + place + 2] = value
    return bytes(content)


@pytest.mark.parametrize(
    "content",
    [
        *(b"", b"PK", b"{}"),
        pytest.param(packed(b"[" * 100_000), id="nested deeply"),
        pytest.param(packed(method=zipfile.ZIP_DEFLATED), id="compressed"),
        pytest.param(patched(packed(), 8, 99), id="compressed in an unknown way"),
        pytest.param(patched(packed(), 6, 1), id="encrypted"),
        pytest.param(patched(patched(packed(), 20, 9), 24, 9), id="longer than the file"),
    ],
)
def test_what_is_no_batch_is_named(spool: Spool, content: bytes) -> None:
    spool.root.mkdir()
    (spool.root / "x.zip").write_bytes(content)
    assert "x.zip: is not a batch" in damage(spool)


def test_a_batch_that_another_process_delivers_meanwhile_is_no_error(
    spool: Spool, monkeypatch: pytest.MonkeyPatch
) -> None:
    spool.keep("source", [ONE])
    listed = [*spool.root.glob("*.zip")]
    monkeypatch.setattr(module, "sorted", lambda _: [path.unlink() or path for path in listed], raising=False)
    assert spool.pending() == []


def test_a_spool_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputDirectoryError, match="name a writable directory with --spool"):
        Spool(tmp_path / "file" / "spool", "s3://bucket").keep("source", [ONE])


def test_the_receipt_names_the_target(spool: Spool) -> None:
    spool.settle(spool.keep("source", [ONE]), ["v3/a.json"])
    (receipt,) = (spool.root / "delivered").iterdir()
    assert json.loads(receipt.read_text())["target"] == "s3://bucket"


def test_nothing_in_the_spool_may_be_a_link_or_a_pipe(spool: Spool, tmp_path: Path) -> None:
    batch = spool.keep("source", [ONE])
    batch.path.rename(tmp_path / "elsewhere.zip")
    batch.path.symlink_to(tmp_path / "elsewhere.zip")
    assert "it is a link, not a regular file" in damage(spool)
    batch.path.unlink()
    os.mkfifo(batch.path)
    assert "it is no regular file" in damage(spool)
    spool.quarantine.symlink_to(tmp_path / "victim.jsonl")
    with pytest.raises(RecordsError, match="it is a link, not a regular file"):
        spool.set_aside([RefusedElement("a.json", 1, "$", ("bad",), "text")])
    assert not (tmp_path / "victim.jsonl").exists()


def test_uploads_at_the_same_moment_add_to_one_quarantine(spool: Spool) -> None:
    refused = [[RefusedElement(f"{number}.json", 1, "$", ("bad",), "text")] for number in range(40)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(spool.set_aside, refused))
    assert len(spool.quarantine.read_text().splitlines()) == 40


def test_a_batch_that_unpacks_to_any_size_is_named(spool: Spool, monkeypatch: pytest.MonkeyPatch) -> None:
    spool.keep("source", [ONE])
    monkeypatch.setattr(files, "MAX_BYTES", 3)
    assert "it holds more than 0 MiB" in damage(spool)
