"""The data branch: real repositories, real pushes."""

from __future__ import annotations

import gc
import socket
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest
from contents import contents
from process_table import runs, wait_until
from scripted_http import scripted_server

from torchperf_ci.deadline import Deadline
from torchperf_ci.errors import NotDeliveredError, PlaceUnreadableError
from torchperf_ci.git import Git, GitError, GitSetting
from torchperf_ci.places import branch, open_place
from torchperf_ci.places.data_repository import DataRepository, Remote
from torchperf_ci.places.place import PlaceAccess

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Collection, Sequence
    from pathlib import Path

    Run = Callable[..., str]


def plant_hooks(folder: Path) -> Path:
    """Hooks that tell that they ran, in the file that is returned."""
    told = folder / "told"
    folder.mkdir()
    for name in (
        "pre-push",
        "pre-commit",
        "post-commit",
        "commit-msg",
        "post-checkout",
    ):
        hook = folder / name
        hook.write_text(f"#!/bin/sh\necho {name} >> '{told}'\n")
        hook.chmod(0o755)
    return told


def state(folder: Path, git: Run) -> list[str]:
    questions = (
        "status --porcelain=v2 --branch",
        "for-each-ref",
        "stash list",
        "diff",
        "diff --cached",
        "reflog",
    )
    said = [git(folder, *question.split()) for question in questions]
    return [*said, (folder / ".git/config").read_text()]


def test_the_checkout_stays_as_it_is_and_no_hook_runs(checkout, remote, git, tmp_path, monkeypatch) -> None:
    told = plant_hooks(tmp_path / "hooks")
    (tmp_path / "gitconfig").write_text(
        f'[core]\n\thooksPath = "{told.parent}"\n[commit]\n\tgpgSign = true\n[push]\n\tgpgSign = true\n'
        "[safe]\n\tbareRepository = explicit\n[protocol]\n\tversion = 0\n"
    )
    git(remote, "config", "uploadpack.allowAnySHA1InWant", "false")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "gitconfig"))
    monkeypatch.setenv("GIT_DIR", str(checkout / ".git"))  # as inside of a hook of the user's own
    monkeypatch.setenv("GIT_INDEX_FILE", str(checkout / ".git/index"))
    monkeypatch.setenv("GIT_DEFAULT_HASH", "sha256")
    before = state(checkout, git)
    assert open_place("branch:perf-data").put("v3/a.json", b"[]") == "written"
    assert state(checkout, git) == before
    assert not told.exists()
    assert git(remote, "--git-dir=.", "show", "perf-data:v3/a.json") == "[]"
    assert contents(open_place("branch:perf-data")) == {"v3/a.json": b"[]"}


def test_a_new_branch_has_no_history_and_each_call_adds_one_commit(remote: Path, git: Run) -> None:
    place = open_place(f"branch:perf-data@{remote}")
    place.put_all({"a": b"1", "b": b"2"})
    place.put_all({"c": b"3", "a": b"1"})
    place.put_all({"a": b"1", "b": b"2"})
    log = git(remote, "log", "--format=%an <%ae> %cn %s", "perf-data").splitlines()
    who = "torchperf <noreply@torchperf.invalid> torchperf"
    assert log == [f"{who} Add 1 record file", f"{who} Add 2 record files"]


def test_what_others_keep_on_the_branch_stays(remote: Path, git: Run, checkout: Path) -> None:
    git(checkout, "push", "--quiet", "origin", "main:perf-data")
    place = open_place("branch:perf-data")
    place.put("v3/a.json", b"[]")
    assert contents(place) == {"file": b"1", "v3/a.json": b"[]"}


def test_eight_at_once_all_get_through(remote: Path, git: Run) -> None:
    barrier = threading.Barrier(8)

    def write(number: int) -> object:
        place = open_place(f"branch:perf-data@{remote}", PlaceAccess(deadline=120))
        barrier.wait(timeout=60)
        return place.put(f"v3/{number}.json", b"%d" % number)

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(write, range(8))) == ["written"] * 8
    place = open_place(f"branch:perf-data@{remote}")
    assert contents(place) == {f"v3/{n}.json": b"%d" % n for n in range(8)}
    assert git(remote, "rev-list", "--count", "perf-data").strip() == "8"
    git(remote, "fsck", "--strict")


def test_a_refused_push_says_why_and_is_not_repeated(remote: Path, tmp_path: Path) -> None:
    hook = remote / "hooks/pre-receive"
    hook.write_text(f"#!/bin/sh\necho >> '{tmp_path}/asked'\necho 'this branch is protected' >&2\nexit 1\n")
    hook.chmod(0o755)
    with pytest.raises(NotDeliveredError, match=r"this branch is protected.*may write"):
        open_place(f"branch:perf-data@{remote}", PlaceAccess(deadline=300)).put("a", b"1")
    assert (tmp_path / "asked").read_text() == "\n"


def test_a_server_that_is_overloaded_is_asked_again_and_one_that_refuses_is_not(git: Run) -> None:
    with scripted_server() as script:
        script.answers = [(503, b""), (429, b""), (403, b"")]
        with pytest.raises(NotDeliveredError, match="error: 403"):
            open_place(f"branch:x@{script.url}/o/r", PlaceAccess(deadline=300)).put("a", b"1")
    assert len(script.requests) == 3


def test_an_overloaded_server_is_asked_again_for_what_is_read(git: Run) -> None:
    with scripted_server() as script:
        script.answers = [(503, b""), (429, b""), (403, b"")]
        with pytest.raises(PlaceUnreadableError, match="error: 403"):
            list(open_place(f"branch:x@{script.url}/o/r").listed())
    assert len(script.requests) == 3


def test_contents_are_asked_for_again_if_the_connection_broke(remote: Path, monkeypatch) -> None:
    place = open_place(f"branch:perf-data@{remote}")
    place.put("a", b"1")
    broken, bring = iter(["the remote end hung up unexpectedly"]), DataRepository.bring

    def bring_later(repository: DataRepository, blobs: Collection[str]) -> None:
        for why in broken:
            raise GitError(why)
        bring(repository, blobs)

    monkeypatch.setattr(DataRepository, "bring", bring_later)
    assert contents(place) == {"a": b"1"}


def test_a_server_that_is_not_there_is_tried_until_the_deadline(
    git: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried, deadline = list[DataRepository](), Deadline.after(60)

    def fetch(repository: DataRepository) -> str:
        tried.append(repository)
        try:
            return really(repository)
        finally:
            if len(tried) == 3:
                deadline.end()

    really = DataRepository.fetch
    monkeypatch.setattr(DataRepository, "fetch", fetch)
    monkeypatch.setattr(Deadline, "after", lambda _seconds: deadline)
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        gone = f"http://127.0.0.1:{unused.getsockname()[1]}"
        with pytest.raises(
            NotDeliveredError, match=r"the time is up; at last git ls-remote.*connect"
        ) as refused:
            open_place(f"branch:x@{gone}/o/r").put("a", b"1")
    assert len(tried) == 3
    assert "may write" in str(refused.value)


def test_git_ends_with_the_deadline_and_so_does_all_that_it_started(
    remote: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hook = remote / "hooks/pre-receive"
    hook.write_text(f"#!/bin/sh\necho $$ > '{tmp_path}/pid'\nexec sleep 600\n")
    hook.chmod(0o755)
    start, deadline, pid = Git._start, Deadline.after(60), tmp_path / "pid"

    def reached(
        git: Git, arguments: Sequence[str], settings: Sequence[GitSetting]
    ) -> subprocess.Popen[bytes]:
        process = start(git, arguments, settings)
        if arguments[0] == "push":
            wait_until(lambda: pid.exists() and pid.read_text())
            deadline.end()
        return process

    monkeypatch.setattr(Git, "_start", reached)
    monkeypatch.setattr(Deadline, "after", lambda _seconds: deadline)
    with pytest.raises(NotDeliveredError, match="git push did not finish in time"):
        open_place(f"branch:perf-data@{remote}").put("a", b"1")
    wait_until(lambda: not runs(int(pid.read_text())))


def test_a_writer_fetches_neither_history_nor_contents(remote: Path, git: Run, tmp_path: Path) -> None:
    place = open_place(f"branch:perf-data@{remote}")
    for number in range(3):
        place.put(f"v3/{number}", b"%d" % number)
    folder = tmp_path / "clone"
    folder.mkdir()
    repository = DataRepository.create(folder, "perf-data", Remote(f"file://{remote}"), Deadline.after(60))
    repository.fetch()
    kinds = git(folder, "cat-file", "--batch-all-objects", "--batch-check=%(objecttype)").split()
    assert sorted(kinds) == ["commit", "tree", "tree"]


def test_a_branch_begins_also_beside_a_ref_that_ends_like_it(remote: Path, git: Run) -> None:
    """As mirrors and backups keep them: the branch was taken to exist, and could not be fetched."""
    kept = "refs/backup/refs/heads/perf-data"
    empty = git(
        remote, "commit-tree", "-m", "old", git(remote, "hash-object", "-wt", "tree", "/dev/null").strip()
    )
    git(remote, "update-ref", kept, empty.strip())
    place = open_place(f"branch:perf-data@{remote}")
    assert place.put("a", b"1") == "written"


def test_a_folder_of_many_files_costs_a_writer_as_much_as_one_of_few(remote, monkeypatch) -> None:
    """Among the 220,000 files of three years, the folders of each took eight seconds."""
    place = open_place(f"branch:perf-data@{remote}")
    place.put_all({f"v3/job/{number}": b"1" for number in range(50)})
    asked, folders = [], branch._folders
    monkeypatch.setattr(branch, "_folders", lambda path: asked.append(path) or folders(path))
    assert {*place.put_all({"v3/job": b"2", "v3/job/1/x": b"2", "v3/new": b"2"}).values()} > {"written"}
    assert len(asked) < 10


def test_what_is_read_is_cleaned_away(remote: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "scratch"))
    (tmp_path / "scratch").mkdir()
    place = open_place(f"branch:perf-data@{remote}")
    place.put("a", b"1")
    assert contents(place) == {"a": b"1"}
    assert len(list((tmp_path / "scratch").iterdir())) == 1
    del place
    gc.collect()
    assert not list((tmp_path / "scratch").iterdir())


def test_the_newest_state_is_read(remote: Path) -> None:
    reader, writer = (open_place(f"branch:perf-data@{remote}") for _ in range(2))
    writer.put("a", b"1")
    assert list(reader.listed()) == ["a"]
    writer.put("b", b"2")
    assert list(reader.listed()) == ["a", "b"]


def test_a_branch_that_is_not_there_yet_holds_nothing(remote: Path) -> None:
    place = open_place(f"branch:perf-data@{remote}")
    assert contents(place) == {}
    assert place.put("a", b"1") == "written"
    assert list(place.listed()) == ["a"]


def test_a_page_to_log_in_is_no_empty_repository(git: Run) -> None:
    with scripted_server() as server:
        server.answers = [(200, b"<html>Log in</html>")]
        with pytest.raises(PlaceUnreadableError, match="what answers is no git server"):
            list(open_place(f"branch:perf-data@{server.url}/data.git").listed())


def test_a_repository_that_is_not_there(tmp_path: Path, git: Run) -> None:
    place = open_place(f"branch:perf-data@file://{tmp_path}/none")
    with pytest.raises(NotDeliveredError, match="not appear to be a git repository"):
        place.put("a", b"1")
    with pytest.raises(PlaceUnreadableError, match="not appear to be a git repository"):
        list(place.listed())


def test_a_repository_of_sha256_is_refused_at_once(tmp_path: Path, git: Run) -> None:
    git(tmp_path, "init", "--quiet", "--object-format=sha256", "--initial-branch=main")
    place = open_place(f"branch:perf-data@{tmp_path}", PlaceAccess(deadline=60))
    with pytest.raises(NotDeliveredError, match=r"^(?!.*time is up).*its objects are named by SHA-256"):
        place.put("a", b"1")
    git(tmp_path, "commit", "--quiet", "--allow-empty", "-m", "one")
    with pytest.raises(PlaceUnreadableError, match="its objects are named by SHA-256"):
        list(open_place(f"branch:main@{tmp_path}").listed())


def test_a_link_in_the_branch_is_named_and_not_followed(tmp_path: Path, remote: Path, git: Run) -> None:
    folder = tmp_path / "made"
    folder.mkdir()
    git(folder, "init", "--quiet", "--initial-branch=data")
    (folder / "a.json").write_text("[]")
    (folder / "b.json").symlink_to("/proc/self/environ")
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "-m", "one")
    git(folder, "push", "--quiet", str(remote), "data")
    place = open_place(f"branch:data@{remote}")
    found = {file.key: (file.body, file.unfit) for file in place.read([*place.listed()])}
    assert found == {"a.json": (b"[]", ""), "b.json": (b"", "it is a link, not a regular file")}
