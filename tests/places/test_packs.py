"""Old files on a data branch are packed by month, and nothing is lost or duplicated, whatever happens."""

from __future__ import annotations

import datetime
import gzip
import io
import json
import os
import signal
import subprocess
import sys
import tarfile
import time
from functools import partial
from typing import TYPE_CHECKING

import pytest
from contents import contents

from torchperf_ci import cli
from torchperf_ci.errors import ConflictError, InvalidObjectError, NotDeliveredError
from torchperf_ci.git import Git, GitError
from torchperf_ci.places import packs
from torchperf_ci.places.branch import BranchPlace
from torchperf_ci.places.data_repository import DataRepository
from torchperf_ci.places.packs import QUARTER, is_pack, month_before, read_pack, write_packs
from torchperf_ci.places.place import PlaceAccess, PlacedObject, unpacked
from torchperf_ci.records import files

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    Run = Callable[..., str]

MARCH, APRIL, LATER = 1_773_000_000, 1_776_000_000, 4_000_000_000
"""Seconds in these months of 2026, and in one that never is old."""


def lines(timestamp: int, value: float = 1.5) -> bytes:
    record = {"timestamp": timestamp, "metric": {"name": "latency(ms)", "benchmark_values": [value]}}
    return gzip.compress(json.dumps(record).encode(), mtime=0)


BRANCH = {
    "v3/octo/perf/1/2/a.json": lines(MARCH),
    "v3/octo/perf/1/2/b.json": lines(MARCH + 60, 1.25),
    "v3/octo/perf/2/2/a.json": lines(APRIL),
    "v3/octo/perf/3/2/a.json": lines(LATER),
    "judged/octo/perf/1/culprits-c.json": b'{"version": 1, "culprits": []}',
    "judged/octo/perf/1/verdicts-v.json": b'{"version": 1, "verdicts": [{"points": [{"timestamp": %d}]}]}'
    % MARCH,
    "notes/package.json": b'{"timestamp": 999999999999, "timestamp": 0}',
    "README.md": b"mine",
}
PACKED = ["packed/2026-03.tar.gz", "packed/2026-04.tar.gz", "packed/index"]
YOUNG = ["README.md", "notes/package.json", "v3/octo/perf/3/2/a.json"]


@pytest.fixture
def place(remote: Path) -> BranchPlace:
    made = BranchPlace.at(f"branch:perf@{remote}", PlaceAccess(deadline=120))
    made.put_all(BRANCH)
    return made


@pytest.fixture
def lying(remote: Path, git: Run) -> Callable[[], list[str]]:
    """The files on the branch, as git has them."""
    return lambda: git(remote, "ls-tree", "-r", "--name-only", "perf").split()


def held(place: BranchPlace) -> dict[str, bytes]:
    """All that a place holds, unpacked."""
    objects = list(place.read([*place.listed()]))
    assert len({file.key for file in objects}) == len(objects)
    return {file.key: unpacked(file.body, -1) for file in objects}


def as_held(bodies: Mapping[str, bytes]) -> dict[str, bytes]:
    return {key: unpacked(body, -1) for key, body in bodies.items()}


def test_what_is_old_becomes_one_object_a_month_and_is_read_as_before(place, lying, remote, git) -> None:
    outcome = place.pack("2026-05")
    assert (outcome.files, [*outcome.packs]) == (5, PACKED[:2])
    assert lying() == sorted([*PACKED, *YOUNG])
    assert held(place) == as_held(BRANCH) == as_held(contents(place))
    assert git(remote, "log", "--format=%an %s", "perf") == "torchperf Pack 5 record files\n"
    git(remote, "fsck", "--strict")


def test_the_files_of_a_pack_are_had_back_by_tar(place, remote, git, tmp_path) -> None:
    place.pack("2026-04")
    archive = tmp_path / "pack"
    command = ["git", "-C", remote, "show", f"perf:{PACKED[0]}"]
    archive.write_bytes(subprocess.run(command, capture_output=True, check=True).stdout)
    subprocess.run(["tar", "-C", tmp_path, "-xzf", archive], check=True)
    for key in ("v3/octo/perf/1/2/a.json", "judged/octo/perf/1/verdicts-v.json"):
        assert (tmp_path / key).read_bytes() == unpacked(BRANCH[key], -1)


def test_a_packed_branch_is_left_alone(place, remote, git) -> None:
    place.pack("2026-05")
    before = git(remote, "rev-parse", "perf")
    assert not place.pack("2026-05").files
    assert git(remote, "rev-parse", "perf") == before


def test_history_of_others_is_kept(place, remote, git, tmp_path) -> None:
    git(tmp_path, "clone", "--quiet", "--branch=perf", str(remote), "clone")
    clone = tmp_path / "clone"
    git(clone, "commit", "--quiet", "--allow-empty", "-m", "mine")
    git(clone, "push", "--quiet", "origin", "perf")
    place.pack("2026-05")
    log = git(remote, "log", "--format=%cn %s", "perf").splitlines()
    assert log == ["torchperf Pack 5 record files", "t mine", "torchperf Add 8 record files"]
    assert held(place) == as_held(BRANCH)


def test_where_nobody_may_force_a_push_history_is_kept(place, remote, git) -> None:
    git(remote, "config", "receive.denyNonFastForwards", "true")
    assert place.pack("2026-05").files == 5
    log = git(remote, "log", "--format=%s", "perf").splitlines()
    assert log == ["Pack 5 record files", "Add 8 record files"]
    assert held(place) == as_held(BRANCH)


def test_an_upload_knows_what_is_packed(place: BranchPlace) -> None:
    place.pack("2026-05")
    key = "v3/octo/perf/1/2/a.json"
    assert place.put(key, BRANCH[key]) == "already there"
    with pytest.raises(ConflictError, match=key):
        place.put(key, lines(MARCH, 9.5))
    assert held(place) == as_held(BRANCH)


def test_what_comes_late_goes_into_the_pack_of_its_month(place: BranchPlace, lying) -> None:
    place.pack("2026-05")
    late = {"v3/octo/perf/1/9/late.json": lines(MARCH), "v3/octo/perf/1/2/c.json": lines(MARCH)}
    assert set(place.put_all(late).values()) == {"written"}
    assert held(place) == as_held(BRANCH | late)
    assert place.pack("2026-05").packs == (PACKED[0],)
    assert lying() == sorted([*PACKED, *YOUNG])
    assert held(place) == as_held(BRANCH | late)
    assert place.put_all(BRANCH | late) == dict.fromkeys(BRANCH | late, "already there")


def test_a_copy_beside_the_pack_goes_and_other_content_stays(place, lying, remote, git, tmp_path) -> None:
    place.pack("2026-05")
    git(tmp_path, "clone", "--quiet", "--branch=perf", str(remote), "clone")
    folder = tmp_path / "clone/v3/octo/perf/1/2"
    folder.mkdir(parents=True)
    (folder / "a.json").write_bytes(BRANCH["v3/octo/perf/1/2/a.json"])
    (folder / "b.json").write_bytes(lines(MARCH, 9.5))
    git(tmp_path / "clone", "add", ".")
    git(tmp_path / "clone", "commit", "--quiet", "-m", "by hand")
    git(tmp_path / "clone", "push", "--quiet")
    assert place.pack("2026-05").files == 1
    assert lying() == sorted([*PACKED, *YOUNG, "v3/octo/perf/1/2/b.json"])


def test_an_upload_at_the_same_moment_is_lost_by_neither(place, monkeypatch) -> None:
    push, other = DataRepository.push, {"v3/octo/perf/1/7/x.json": lines(MARCH)}
    rival = BranchPlace(place._branch, place._remote, PlaceAccess())

    def push_after_another(repository: DataRepository, parent: str) -> None:
        monkeypatch.setattr(DataRepository, "push", push)
        assert set(rival.put_all(other).values()) == {"written"}
        push(repository, parent)

    monkeypatch.setattr(DataRepository, "push", push_after_another)
    assert place.pack("2026-05").files == 6
    assert held(place) == as_held(BRANCH | other)


def test_between_any_two_steps_it_may_end(place, lying, monkeypatch) -> None:
    run, left, complete = Git.__call__, [0], False

    def run_or_end(git: Git, *arguments: str, stdin: bytes = b"") -> bytes:
        left[0] -= 1
        if left[0] < 0:
            msg = "killed"
            raise GitError(msg)
        return run(git, *arguments, stdin=stdin)

    for steps in range(5, 100):
        with monkeypatch.context() as patched:
            left[0] = steps
            patched.setattr(Git, "__call__", run_or_end)
            try:
                place.pack("2026-05")
                complete = True
            except NotDeliveredError:
                pass
        assert complete == any(map(is_pack, lying()))
        if complete:
            break
    assert steps > 8
    assert held(place) == as_held(BRANCH)


def test_killed_while_it_runs(place, remote, lying) -> None:
    command = [sys.executable, "-m", "torchperf_ci", "pack", f"branch:perf@{remote}"]
    for seconds in (0.4, 0.8):
        process = subprocess.Popen(command)
        time.sleep(seconds)
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert held(place) == as_held(BRANCH)
    subprocess.run(command, check=True)
    assert PACKED[0] in lying()
    assert held(place) == as_held(BRANCH)


def test_a_damaged_pack_is_told_and_left_alone(place, lying) -> None:
    place.put(PACKED[0], b"not a pack")
    place.pack("2026-05")
    assert {PACKED[0], "packed/2026-03.2.tar.gz"} <= {*lying()}
    read = {file.key: file.unfit for file in place.read([*place.listed()])}
    assert "is named as a pack" in read.pop(PACKED[0])
    assert read == dict.fromkeys(BRANCH, "")


def test_a_month_beyond_the_limit_has_several_packs(place, lying, monkeypatch) -> None:
    monkeypatch.setattr(packs, "PACK_BYTES", 150)
    place.pack("2026-04")
    assert [path for path in lying() if is_pack(path)] == [
        "packed/2026-03.2.tar.gz",
        "packed/2026-03.3.tar.gz",
        "packed/2026-03.tar.gz",
    ]
    assert held(place) == as_held(BRANCH)
    monkeypatch.undo()
    place.put("v3/octo/perf/1/9/late.json", lines(MARCH))
    assert place.pack("2026-04").packs == (PACKED[0],)
    assert held(place) == as_held(BRANCH | {"v3/octo/perf/1/9/late.json": lines(MARCH)})


def test_of_what_hardly_becomes_smaller_there_are_more_packs_that_all_can_be_read(monkeypatch) -> None:
    for module in (packs, files):
        monkeypatch.setattr(module, "MAX_BYTES", 3000)
    placed = [PlacedObject(f"v3/{number}.json", "t", os.urandom(700)) for number in range(9)]
    made = [content for content, _ in write_packs(placed)]
    assert [file for content in made for file in read_pack("", content)] == placed


def test_a_pack_that_unpacks_to_more_than_any_of_ours_is_refused(monkeypatch) -> None:
    [(content, _)] = write_packs([PlacedObject("a", "t", b"0" * 5000)])
    monkeypatch.setattr(packs, "_MAX_UNPACKED_BYTES", 2000)
    with pytest.raises(InvalidObjectError, match="unpacks to more than"):
        list(read_pack("p", content))


@pytest.mark.parametrize("cut", [0, 1, 40, -1, -9])
def test_a_pack_that_is_cut_off_is_refused(cut: int) -> None:
    [(content, _)] = write_packs([PlacedObject(key, "t", key.encode() * 99) for key in "abc"])
    with pytest.raises(InvalidObjectError, match="none or damaged"):
        list(read_pack("p", content[:cut]))


def test_a_pack_of_names_without_end_is_refused() -> None:
    name = tarfile.TarInfo("././@LongLink")
    name.type, name.size = tarfile.GNUTYPE_LONGNAME, 1
    with pytest.raises(InvalidObjectError, match="none or damaged"):
        list(read_pack("p", gzip.compress((name.tobuf(tarfile.GNU_FORMAT) + bytes(512)) * 2000)))


def test_a_pack_with_a_hostile_key_is_refused() -> None:
    content = packs._write_pack([PlacedObject("v3/../../a.json", "t", b"1")])
    with pytest.raises(InvalidObjectError, match=r"'\.\.' cannot be a part"):
        list(read_pack("p", content))


def test_a_pack_whose_files_have_holes_is_refused() -> None:
    """A thousand bytes could stand for 60 MB, again and again."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, content, about in (
            ("tags", b"t v3/a.json\n", {}),
            ("v3/a.json", b"1\n0\n1\n".ljust(512, b"\0") + b"x", SPARSE),
        ):
            member = tarfile.TarInfo(name)
            member.size, member.pax_headers = len(content), about
            archive.addfile(member, io.BytesIO(content))
    with pytest.raises(InvalidObjectError, match="a file has holes"):
        list(read_pack("p", buffer.getvalue()))


SPARSE = {"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.realsize": "60000000"}


def test_an_archive_of_somebody_else_is_refused() -> None:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        link = tarfile.TarInfo("../../etc/passwd")
        link.type = tarfile.SYMTYPE
        link.linkname = "/etc/shadow"
        archive.addfile(link)
        archive.addfile(link)
    with pytest.raises(InvalidObjectError):
        list(read_pack("p", buffer.getvalue()))


@pytest.mark.parametrize(
    ("today", "month"), [("2026-07-31", "2026-04"), ("2026-04-01", "2026-01"), ("2026-01-15", "2025-10")]
)
def test_a_quarter_is_left_as_it_is(today: str, month: str) -> None:
    assert month_before(datetime.date.fromisoformat(today), QUARTER) == month


def test_the_command_says_what_it_did(place, remote, capsys, monkeypatch, tmp_path) -> None:
    command = partial(cli.main, ["pack", f"branch:perf@{remote}"])
    assert command() == 0
    assert "5 files from before" in capsys.readouterr().err
    assert command() == 0
    assert "everything from before" in capsys.readouterr().err
    assert cli.main(["pack", f"branch:typo@{remote}"]) == 2
    assert "there is no such branch to pack" in capsys.readouterr().err
    assert cli.main(["pack", str(tmp_path)]) == 2
    monkeypatch.chdir(tmp_path)
    assert cli.main(["pack"]) == 0
    assert "nothing to pack" in capsys.readouterr().err
