from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

import pytest
from nfs_locks import lock_as_on_nfs

from torchperf_ci.environments.build_environment import BuildEnvironment, Builder, open_environment
from torchperf_ci.environments.cache import EnvironmentCache
from torchperf_ci.environments.revisions import Revision
from torchperf_ci.errors import EnvironmentUnderTestError
from torchperf_ci.scratch import disk_size, scratch_folder

if TYPE_CHECKING:
    from collections.abc import Iterator

MIB = 2**20


class Shop:
    """Makes environments of 1 MiB each, but for those whose names say that they are broken."""

    def __init__(self) -> None:
        self.made: list[str] = []

    @contextmanager
    def opened(self, name: str, draw: int = 0) -> Iterator[BuildEnvironment]:
        self.made.append(f"{name}{draw or ''}")
        with scratch_folder() as folder:
            if name.startswith("broken"):
                msg = f"{name} cannot be built"
                raise EnvironmentUnderTestError(msg)
            (folder / "file").write_bytes(bytes(MIB))
            yield BuildEnvironment(sys.executable, (), name, folder)


def test_an_environment_is_made_once_and_all_are_gone_in_the_end(temporary) -> None:
    shop = Shop()
    with EnvironmentCache(shop.opened) as environments:
        found = [environments.get(name) for name in ("a", "b", "a", "c", "b")]
        assert [environment.description for environment in found] == ["a", "b", "a", "c", "b"]
        assert found[0] is found[2]
        assert all(environment.folder.exists() for environment in found)
    assert shop.made == ["a", "b", "c"]
    assert list(temporary.iterdir()) == []


def test_what_others_put_beside_it_neither_stalls_it_nor_is_removed(temporary, tmp_path) -> None:
    for name in ("fifo", "link", "bare"):
        (temporary / f"torchperf-{name}").mkdir()
    os.mkfifo(temporary / "torchperf-fifo/owner")
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "owner").touch()
    (temporary / "torchperf-link/owner").symlink_to(precious / "owner")
    (temporary / "torchperf-folder").symlink_to(precious)
    before = set(temporary.iterdir())
    with scratch_folder():
        pass
    assert set(temporary.iterdir()) == before
    assert (precious / "owner").exists()


def test_what_a_kill_left_on_a_network_file_system_is_removed(temporary, monkeypatch) -> None:
    monkeypatch.setattr(fcntl, "flock", lock_as_on_nfs)
    (temporary / "torchperf-killed").mkdir()
    (temporary / "torchperf-killed/owner").touch()
    with scratch_folder() as folder, scratch_folder() as other:
        assert {*temporary.iterdir()} == {folder, other}


def test_one_that_cannot_be_made_is_tried_whenever_it_is_asked_for(temporary) -> None:
    shop = Shop()
    with EnvironmentCache(shop.opened) as environments:
        for _ in range(3):
            with pytest.raises(EnvironmentUnderTestError, match="broken one cannot be built"):
                environments.get("broken one")
        assert list(temporary.iterdir()) == []
    assert shop.made == ["broken one"] * 3


def test_draws_of_one_build_lie_side_by_side_and_make_room_like_others(temporary) -> None:
    shop = Shop()
    with EnvironmentCache(shop.opened, limit=4 * MIB + MIB // 2) as environments:
        held = [environments.get("a", draw) for draw in (0, 1, 2, 1, 3, 4)]
        assert [environment.folder.exists() for environment in held] == [False, True, True, True, True, True]
        assert held[1] is held[3]
    assert shop.made == ["a", "a1", "a2", "a3", "a4"]
    assert list(temporary.iterdir()) == []


def test_those_that_were_not_asked_for_longest_make_room(temporary) -> None:
    shop = Shop()
    with EnvironmentCache(shop.opened, limit=4 * MIB + MIB // 2) as environments:
        held = {name: environments.get(name) for name in "abcd"}
        environments.get("a")
        environments.get("e")
        assert {name for name, environment in held.items() if environment.folder.exists()} == {"a", "c", "d"}
        assert environments.get("b").folder.exists()
    assert shop.made == [*"abcde", "b"]
    assert list(temporary.iterdir()) == []


def test_those_in_use_stay_however_little_room_there_is(temporary) -> None:
    with EnvironmentCache(Shop().opened, limit=0) as environments:
        held = [environments.get(name) for name in "abcde"]
        assert [environment.folder.exists() for environment in held] == [False, False, True, True, True]


def test_a_python_that_was_not_made_takes_no_room() -> None:
    @contextmanager
    def as_it_is(name: str) -> Iterator[BuildEnvironment]:
        yield BuildEnvironment(name, (), name)

    with EnvironmentCache(as_it_is, limit=0) as environments:
        assert environments.get("python").python == "python"


def test_one_that_does_not_close_keeps_no_other_from_it(temporary) -> None:
    shop = Shop()

    @contextmanager
    def sticky(name: str) -> Iterator[BuildEnvironment]:
        with shop.opened(name) as environment:
            yield environment
        if name == "b":
            msg = "sticky"
            raise OSError(msg)

    with pytest.raises(OSError, match="sticky"), EnvironmentCache(sticky) as environments:
        assert [environments.get(name).description for name in "abc"] == ["a", "b", "c"]
    assert list(temporary.iterdir()) == []


def test_an_interruption_while_one_is_weighed_takes_it_away(temporary, monkeypatch) -> None:
    def interrupted(_folder) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr("torchperf_ci.environments.cache.disk_size", interrupted)
    with pytest.raises(KeyboardInterrupt) as error, EnvironmentCache(Shop().opened) as environments:
        environments.get("a")
    assert error.traceback  # whose frames are still there, with all that they hold
    assert list(temporary.iterdir()) == []


def test_a_file_with_two_names_counts_once(tmp_path) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner/file").write_bytes(bytes(MIB))
    (tmp_path / "inner/again").hardlink_to(tmp_path / "inner/file")
    (tmp_path / "link").symlink_to("nowhere")
    assert MIB <= disk_size(tmp_path) < 2 * MIB


def test_files_that_a_server_removes_meanwhile_are_not_counted(tmp_path) -> None:
    with subprocess.Popen(["sh", "-c", "while :; do : > file; rm file; done"], cwd=tmp_path) as server:
        try:
            assert {disk_size(tmp_path) for _ in range(2000)} == {0}
        finally:
            server.kill()


def revisions(checkout) -> list[Revision]:
    return [
        Revision(checkout.folder, checkout.first, "red"),
        Revision(checkout.folder, checkout.second, "blue"),
    ]


def test_commits_of_a_repository_in_use_leave_no_trace_of_themselves(checkout, temporary, quick) -> None:
    before = checkout.state()
    build = "test -e {worktree}/colour.py && cp colour.py {env}/made.py"
    with EnvironmentCache(partial(open_environment, builder=Builder(quick, build))) as environments:
        red, blue = (environments.get(revision) for revision in revisions(checkout))
        assert (red.folder / "env/made.py").read_text() == "NAME = 'red'\n"
        assert (blue.folder / "env/made.py").read_text() == "NAME = 'blue'\n"
    assert checkout.state() == before
    assert list(temporary.iterdir()) == []


BISECTING = """
import signal, sys
from functools import partial
from pathlib import Path
from torchperf_ci.environments.cache import EnvironmentCache
from torchperf_ci.environments.build_environment import Builder, open_environment
from torchperf_ci.environments.revisions import Revision

def stop(*_):
    raise KeyboardInterrupt

signal.signal(signal.SIGTERM, stop)
repo, python, *commits = sys.argv[1:]
builder = Builder(python, "test {sha} = $FIRST || { touch $READY; sleep 30; }")
with EnvironmentCache(partial(open_environment, builder=builder)) as environments:
    for sha in commits:
        environments.get(Revision(Path(repo), sha, ""))
"""


@contextmanager
def bisecting(checkout, temporary, quick) -> Iterator[subprocess.Popen[bytes]]:
    """A process that holds the first commit's environment, and is about to build the second one's."""
    ready = temporary.parent / "ready"
    process = subprocess.Popen(
        [sys.executable, "-c", BISECTING, str(checkout.folder), quick, checkout.first, checkout.second],
        env={**os.environ, "TMPDIR": str(temporary), "READY": str(ready), "FIRST": checkout.first},
        stderr=subprocess.PIPE,
    )
    with process:
        while not ready.exists():
            assert process.poll() is None, process.stderr.read()
            time.sleep(0.02)
        yield process


def test_an_interruption_leaves_no_trace(checkout, temporary, quick) -> None:
    before = checkout.state()
    with bisecting(checkout, temporary, quick) as process:
        assert len(list(temporary.iterdir())) == 2
        process.send_signal(signal.SIGTERM)
        process.wait(60)
    assert checkout.state() == before
    assert list(temporary.iterdir()) == []


def test_the_next_run_removes_what_a_killed_one_left(checkout, temporary, quick, git) -> None:
    before = checkout.state()
    with bisecting(checkout, temporary, quick) as process:
        process.kill()
    theirs = git(checkout.folder, "worktree", "list").splitlines()[1:]
    assert len(theirs) == len(list(temporary.iterdir())) == 2
    git(checkout.folder, "worktree", "lock", str(next(temporary.glob("*/torchperf-*"))))
    with EnvironmentCache(partial(open_environment, builder=Builder(quick))) as environments:
        environments.get(revisions(checkout)[0])
        assert len(list(temporary.iterdir())) == 1
    assert checkout.state() == before


def test_the_next_run_leaves_alone_what_is_in_use_or_not_ours(checkout, temporary, quick, git) -> None:
    strangers = temporary / "torchperf-stranger"
    strangers.mkdir()
    on_a_stick = temporary / "torchperf-stick"
    git(checkout.folder, "worktree", "add", "--quiet", "--detach", str(on_a_stick / "torchperf"))
    on_a_stick.rename(temporary / "elsewhere")
    at_first = git(checkout.folder, "worktree", "list")
    with bisecting(checkout, temporary, quick) as process:
        before = {*temporary.iterdir()}, git(checkout.folder, "worktree", "list")
        with EnvironmentCache(partial(open_environment, builder=Builder(quick))) as environments:
            environments.get(revisions(checkout)[0])
        assert ({*temporary.iterdir()}, git(checkout.folder, "worktree", "list")) == before
        process.terminate()
    assert git(checkout.folder, "worktree", "list") == at_first
    assert {*temporary.iterdir()} == {strangers, temporary / "elsewhere"}
