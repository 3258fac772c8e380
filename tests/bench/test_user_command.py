"""User commands in real shells: their environment, their output, and that none of their processes stays behind."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from process_table import mentioning, wait_until

from torchperf_ci.bench import user_command
from torchperf_ci.bench.case import Settings
from torchperf_ci.bench.user_command import InstalledBuild, run_user_command
from torchperf_ci.bench.worker_client import LOG_TAIL_LINES, WorkerFailure
from torchperf_ci.errors import SystemRefusalError, UsageError

SHA = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def build(tmp_path: Path) -> InstalledBuild:
    tree = tmp_path / "it's a $(touch hooked) {python}"
    tree.mkdir()
    return InstalledBuild(Settings(sys.executable, "cpu", timeout=30), SHA, tree, tmp_path / "scratch")


def printed(command: str, build: InstalledBuild) -> str:
    """What a run prints, whatever it is."""
    found = []

    def read(output: Path) -> dict[str, float]:
        found.append(output.read_text())
        return {}

    run_user_command(command, build, read)
    return found[0].strip()


def a_number(output: Path) -> dict[str, float]:
    return {"n": float(output.read_text())}


def test_the_numbers_are_what_is_read_from_the_output(build: InstalledBuild) -> None:
    assert run_user_command("echo noise >&2; echo 1.5", build, a_number) == {"n": 1.5}


@pytest.mark.parametrize("place", ["{sha} {worktree} {python}", '"$SHA" "$WORKTREE" "$PYTHON"'])
def test_a_command_is_told_its_commit_folder_and_python(build: InstalledBuild, place: str) -> None:
    told = printed(f"printf '%s\\n' {place}", build).splitlines()
    assert told == [SHA, str(build.worktree), sys.executable]
    assert not (build.worktree / "hooked").exists()


def test_other_braces_are_the_users_own(build: InstalledBuild) -> None:
    assert printed("echo 1 2 | awk '{print $2}'", build) == "2"


def test_it_runs_in_the_worktree_or_in_an_empty_folder(build: InstalledBuild) -> None:
    assert printed("pwd -P", build) == str(build.worktree.resolve())
    assert printed("ls -A", replace(build, worktree=None)) == ""


def test_a_worktree_that_a_run_has_removed_is_told(build: InstalledBuild) -> None:
    run_user_command('rm -r "$WORKTREE"; echo 1', build, a_number)
    with pytest.raises(WorkerFailure, match="failed: --build or an earlier run removed the worktree"):
        run_user_command("echo 1", build, a_number)


def test_it_has_none_of_the_jobs_rights(build: InstalledBuild, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("GITHUB_ENV", "ACTIONS_RUNTIME_TOKEN"):
        monkeypatch.setenv(name, "given")
    assert printed('echo "${GITHUB_ENV-none} ${ACTIONS_RUNTIME_TOKEN-none}"', build) == "none none"


@pytest.mark.parametrize("place", ["worktree", "sha"])
def test_a_place_that_there_is_nothing_for_is_refused(build: InstalledBuild, place: str) -> None:
    with pytest.raises(UsageError, match=place):
        run_user_command(f"echo {{{place}}}", replace(build, **{place: None}), a_number)


def test_the_python_under_test_is_the_first_and_the_only_active_one(
    build: InstalledBuild, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VIRTUAL_ENV", "/of/the/toolkit")
    monkeypatch.setenv("PYTHONHOME", "/of/another")
    monkeypatch.setenv("TORCHPERF_SUITE", "of the bisection")
    python = tmp_path / "env/bin/python"
    python.parent.mkdir(parents=True)
    python.symlink_to("/bin/sh")
    build = replace(build, settings=replace(build.settings, python=str(python)))
    ask = 'echo "$(command -v python) ${VIRTUAL_ENV-none} ${PYTHONHOME-none} ${TORCHPERF_SUITE-none}"'
    assert printed(ask, build) == f"{python} none none none"
    (tmp_path / "env/pyvenv.cfg").touch()
    assert printed(ask, build) == f"{python} {tmp_path / 'env'} none none"


def test_the_code_under_test_comes_first_and_is_left_as_it_was(
    build: InstalledBuild, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
    for name in ("old", "new"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "under_test.py").write_text(f"NAME = {name!r}")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "old"))
    build = replace(build, settings=replace(build.settings, path=(str(tmp_path / "new"),)))
    assert printed("{python} -c 'import under_test; print(under_test.NAME)'", build) == "new"
    assert [file.name for file in (tmp_path / "new").iterdir()] == ["under_test.py"]


def test_no_bytecode_is_left_in_the_worktree(build: InstalledBuild, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
    (build.worktree / "under_test.py").write_text("NAME = 'here'")
    assert printed("{python} -c 'import under_test; print(under_test.NAME)'", build) == "here"
    assert [file.name for file in build.worktree.iterdir()] == ["under_test.py"]


def test_no_cache_of_a_compiler_is_shared_with_another_build(build: InstalledBuild, tmp_path: Path) -> None:
    ask = "printf '%s\\n' $TORCHINDUCTOR_CACHE_DIR $TRITON_CACHE_DIR $TORCH_EXTENSIONS_DIR"
    caches = [printed(ask, replace(build, scratch=tmp_path / name)).splitlines() for name in ("one", "two")]
    assert all(Path(folder).is_relative_to(tmp_path / "one") for folder in caches[0])
    assert len({*caches[0], *caches[1]}) == 6


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("echo 1; exit 3", "failed: it exited with code 3"),
        ("kill -SEGV $$", "crashed: it was killed by signal 11"),
        ("echo slow", "failed: could not convert string to float"),
        ("echo 1; rm -r ../scratch/run-*", "failed: while it ran, "),
        ("yes", "failed: it printed more than 1 MiB"),
        ("yes >&2", "failed: it printed more than 1 MiB"),
        ("head -c 2000000 /dev/zero", "failed: it printed more than 1 MiB"),
    ],
)
def test_a_run_without_a_number_says_why(
    build: InstalledBuild, command: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(user_command, "MAX_OUTPUT_BYTES", 2**20)
    with pytest.raises(WorkerFailure) as failure:
        run_user_command(command, build, a_number)
    assert str(failure.value).startswith(said)
    assert not list(build.scratch.glob("run-*"))


def test_a_failure_shows_the_end_of_what_was_printed(build: InstalledBuild) -> None:
    with pytest.raises(WorkerFailure) as failure:
        run_user_command("seq 100; echo 'no such operator' >&2; exit 1", build, a_number)
    assert failure.value.log.splitlines() == [
        *(str(n) for n in range(102 - LOG_TAIL_LINES, 101)),
        "no such operator",
    ]


def test_a_run_that_hangs_ends_with_its_time(build: InstalledBuild) -> None:
    build = replace(build, settings=replace(build.settings, timeout=0.5))
    with pytest.raises(WorkerFailure, match=r"timeout: it took longer than .* s: raise --timeout"):
        run_user_command("sleep 600", build, a_number)


@pytest.mark.parametrize("ending", ["echo 1", "exit 1", "sleep 600"])
def test_nothing_that_it_began_goes_on(build: InstalledBuild, tmp_path: Path, ending: str) -> None:
    if ending.startswith("sleep"):
        build = replace(build, settings=replace(build.settings, timeout=0.5))
    try:
        run_user_command(f"sleep 600 & {ending}", build, a_number)
    except WorkerFailure:
        assert ending != "echo 1"
    wait_until(lambda: not mentioning(str(tmp_path)))


def test_nobody_can_be_asked(build: InstalledBuild) -> None:
    assert printed("cat; echo end", build) == "end"


def test_every_process_of_it_is_on_the_cpus_and_the_caller_stays_where_it_was(build: InstalledBuild) -> None:
    affinity = getattr(os, "sched_getaffinity", lambda _: {0})  # macOS cannot pin
    before = affinity(0)
    cpu = min(before)
    build = replace(build, settings=replace(build.settings, cpus=(cpu,)))
    ask = "import os; print(*getattr(os, 'sched_getaffinity', lambda _: {0})(0))"
    assert printed(f'{{python}} -c "{ask}"; ({{python}} -c "{ask}")', build).split() == [str(cpu)] * 2
    assert affinity(0) == before


def test_a_cpu_that_can_no_longer_be_used_is_told(build: InstalledBuild) -> None:
    """It was taken offline, or from this container's set, since it was chosen."""
    if sys.platform != "linux":
        return
    build = replace(build, settings=replace(build.settings, cpus=(2**12,)))
    with pytest.raises(SystemRefusalError, match="CPU 4096 can no longer be used"):
        run_user_command("echo 1", build, a_number)
